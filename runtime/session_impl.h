// The two kinds of session behind Session::create.
#pragma once

#include "runtime/session.h"
#include "runtime/verdict.h"

namespace reprise {

/// `notes` say why no variant was taken.
Result<std::unique_ptr<Session>> create_host_session(
    std::shared_ptr<const package::Package> package, std::vector<std::string> notes);

/// Runs `package->variants[variant]`, which the device satisfies; `notes` say why earlier ones were
/// not taken. Null if the options want its kernels checked and `verdict` is that one is wrong.
Result<std::unique_ptr<Session>> create_device_session(
    std::shared_ptr<const package::Package> package, std::shared_ptr<Device> device, size_t variant,
    std::vector<std::string> notes, const SessionOptions& options, Verdict& verdict);

}  // namespace reprise
