// The two kinds of session behind Session::create.
#pragma once

#include "runtime/check/verdict.h"
#include "runtime/session/session.h"

namespace reprise {

/// Why a run object without bindings cannot begin.
inline constexpr const char* kUnbound =
    "the run has no bindings, or its last ones were refused; bind it first";

/// Runs the host plan. `notes` say why no variant is used. The only option that matters is
/// timeout_ns.
Result<std::unique_ptr<Session>> create_host_session(
    std::shared_ptr<const package::Package> package, std::vector<std::string> notes,
    const SessionOptions& options);

/// Runs `package->variants[variant]`, whose predicate the device satisfies. `notes` say why earlier
/// variants are not used. Returns null if the options ask for a check and a kernel is wrong;
/// `verdict` then has the reason.
Result<std::unique_ptr<Session>> create_device_session(
    std::shared_ptr<const package::Package> package, std::shared_ptr<Device> device, size_t variant,
    std::vector<std::string> notes, const SessionOptions& options, Verdict& verdict);

}  // namespace reprise
