#include <filesystem>

#include "apps/common/files.h"
#include "apps/reprise/command.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

struct CompileCommand {
  CommonOptions common;
  std::string model;
  std::string output;
  std::string targets = "vulkan";
  bool probes = true;
};

Result<CompileOptions> options_of(const CompileCommand& o, ProgressLine& progress) {
  RP_ASSIGN(CompileOptions options, o.common.compile_options());
  options.targets = split_list(o.targets);
  options.probes = o.probes;
  if (options.targets.empty())
    return Status(Code::Usage, "--targets names no target; use --targets vulkan");
  if (utf8_path(o.model).extension() == ".rpk")
    return Status(Code::Usage, "'" + o.model + "' is compiled already; pass the .onnx file");
  options.progress = [&progress](const std::string& what, size_t done, size_t total) {
    if (what == "kernels") {
      progress.show("compiling for CUDA: " + std::to_string(done) + " of " + std::to_string(total) +
                    " kernels");
    }
    return true;
  };
  options.log = [&progress](const std::string& message) {
    progress.clear();
    note(message);
  };
  return options;
}

Status compile_model(const CompileCommand& o) {
  const Output out(o.common.json);
  ProgressLine progress;
  RP_ASSIGN(const CompileOptions options, options_of(o, progress));
  RP_TRY(check_package_output(o.model, o.output));
  if (o.common.device != "auto" && !o.common.mode.starts_with("max-autotune"))
    note("--device has no effect on a package without --mode max-autotune");
  RP_ASSIGN(Model model, load_as(o.model, options, o.common));
  progress.clear();
  RP_TRY(package::write(*model.package, o.output));
  std::error_code error;
  const auto bytes = std::filesystem::file_size(utf8_path(o.output), error);
  if (error) return {Code::Io, "cannot read '" + o.output + "': " + error.message()};

  Table table({"pass", "ms"});
  Json passes = Json::array();
  for (const PassTime& pass : model.report.passes) {
    table.add({pass.name, format_number(pass.ms)});
    passes.push_back({{"name", pass.name}, {"ms", pass.ms}});
  }
  table.add({"total", format_number(model.compile_ms)});
  Json variants = Json::array();
  std::string variant_text;
  if (model.package->variants.empty()) variant_text = "none; it runs on the host alone";
  for (const package::Variant& v : model.package->variants) {
    variants.push_back(v.name);
    variant_text += (variant_text.empty() ? "" : ", ") + v.name;
  }
  out.table(table);
  const ImageReport& images = model.report.images;
  if (images.images > 0) {
    out.text("\nNVRTC " + images.nvrtc + ": " + std::to_string(images.images) + " images, " +
             std::to_string(images.cached) + " of them kept from before\n");
  }
  out.text("\n" + o.output + ": " + format_bytes(static_cast<int64_t>(bytes)) +
           ", variants: " + variant_text + "\n");
  return out.json({{"model", o.model},
                   {"output", o.output},
                   {"targets", options.targets},
                   {"variants", std::move(variants)},
                   {"bytes", bytes},
                   {"compile_ms", model.compile_ms},
                   {"passes", std::move(passes)},
                   {"cuda_images", images.images},
                   {"cuda_images_cached", images.cached}});
}

}  // namespace

void register_compile(CLI::App& root, int& status) {
  auto o = std::make_shared<CompileCommand>();
  CLI::App* command = root.add_subcommand("compile", "Compile a model to a package");
  command->add_option("MODEL", o->model, "An .onnx or .gguf file, or a folder of Hugging Face")
      ->required();
  command->add_option("-o,--output", o->output, "The .rpk to write")
      ->required()
      ->check(no_stream());
  command
      ->add_option("--targets", o->targets,
                   "Comma-separated: vulkan or variants of it, cuda:sm_80, cuda:sm_90, ...")
      ->capture_default_str();
  command->add_flag("--probes,!--no-probes", o->probes,
                    "Store the expected results of each kernel for seeded inputs, for `reprise "
                    "check` and for sessions that check their kernels; on by default");
  add_common(*command, o->common, kJson | kDevice | kCompile);
  command->footer(
      "A package runs without the compiler, on every device that one of its variants fits. No\n"
      "device is needed, except for --mode max-autotune, which measures on --device; the\n"
      "package's variant for such devices then has the fastest schedules. Whether runs are\n"
      "replayed (default or reduce-overhead) is decided when the package runs.\n"
      "NVRTC compiles for CUDA; running a package does not need it. PTX for the lowest\n"
      "architecture is added, for devices of other architectures.\n"
      "Examples: reprise compile bert.onnx -o bert.rpk --targets vulkan,cuda:sm_80,cuda:sm_90\n"
      "          reprise compile bert.onnx -o bert.rpk --mode max-autotune --device vulkan:0");
  command->callback([o, &status] {
    const Status s = compile_model(*o);
    status = s.ok() ? kDone : report(s);
  });
}

}  // namespace reprise::app
