#include "apps/common/model.h"

#include <filesystem>

#include "apps/common/timing.h"

namespace reprise::app {

Result<Model> load_model(const std::string& path, const CompileOptions& options) {
  Model m;
  m.path = path;
  if (!std::filesystem::is_regular_file(path)) {
    const bool exists = std::filesystem::exists(path);
    return Status(Code::Io, "cannot read model '" + path +
                                "': " + (exists ? "it is not a regular file" : "no such file"));
  }
  const double start = now_ms();
  if (std::filesystem::path(path).extension() == ".rpk") {
    RP_ASSIGN(m.package, package::read(path));
    m.read_ms = now_ms() - start;
    return m;
  }
  RP_ASSIGN(package::Package compiled, compile_file(path, options, &m.report));
  m.package = std::make_shared<package::Package>(std::move(compiled));
  m.compiled = true;
  m.compile_ms = now_ms() - start;
  return m;
}

std::vector<std::string> targets_for(const OpenedDevice& device) {
  if (!device.device) return {"host"};
  return {device.info.id.substr(0, device.info.id.find(':'))};
}

}  // namespace reprise::app
