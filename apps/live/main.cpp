// reprise-live: a moving picture that the renderer draws at a quarter of the pixels, and that a
// model enlarges in the same command buffer. It is a sample of a game's frame.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>

#include "apps/live/canvas.h"
#include "apps/live/presenter.h"
#include "apps/live/scene.h"
#include "apps/live/upscaler.h"
#include "apps/samples/command_line.h"
#include "apps/samples/outcome.h"
#include "apps/samples/png.h"

namespace live {
namespace {

using reprise::Package;
using samples::failed;
using samples::kDone;
using samples::kFailed;
using samples::report;

constexpr int kMeasureFirst = 30;  // frames without the model, before it is switched on
constexpr uint32_t kZoom = 4;      // pixels of the window for each of the renderer's

struct Options {
  std::string package, screenshot, input, output;
  uint32_t width = 320, height = 180;
  int frames = 0;  // 0: until the window is closed
  bool validation = false;
};

/// The times of the last frames.
class FrameTimes {
 public:
  void add(double ms) {
    last_.push_back(ms);
    if (last_.size() > 60) last_.pop_front();
  }
  /// The median as text.
  std::string text() const {
    if (last_.empty()) return "-";
    std::vector<double> sorted(last_.begin(), last_.end());
    std::sort(sorted.begin(), sorted.end());
    char out[32];
    std::snprintf(out, sizeof out, "%.2f ms", sorted[sorted.size() / 2]);
    return out;
  }

 private:
  std::deque<double> last_;
};

/// What the user wants.
struct Input {
  bool model_on = false, quit = false;

  void poll() {
    for (SDL_Event event; SDL_PollEvent(&event);) {
      if (event.type == SDL_QUIT) quit = true;
      if (event.type != SDL_KEYDOWN) continue;
      if (event.key.keysym.sym == SDLK_SPACE) model_on = !model_on;
      if (event.key.keysym.sym == SDLK_ESCAPE) quit = true;
    }
  }
};

class Program {
 public:
  Program(const Options& options, const Gpu& gpu, SDL_Window* window, Upscaler& upscaler)
      : options_(options),
        gpu_(gpu),
        upscaler_(upscaler),
        scene_(gpu, options.width, options.height),
        canvas_(gpu, options.width * kZoom, options.height * kZoom),
        presenter_(gpu, window) {}

  Error run() {
    const int measure_first = options_.frames ? options_.frames / 2 : kMeasureFirst;
    for (int i = 0; !input_.quit && (!options_.frames || i < options_.frames); ++i) {
      if (i == measure_first) input_.model_on = true;
      Error e = frame(i);
      if (failed(e)) return e;
      input_.poll();
    }
    std::printf("without the model %s, with it %s\n", times_[0].text().c_str(),
                times_[1].text().c_str());
    return {};
  }

  Error save() {
    if (!options_.screenshot.empty()) {
      const std::vector<unsigned char> pixels = canvas_.read(gpu_);
      Error e = write(options_.screenshot, canvas_.image(), pixels);
      if (failed(e)) return e;
    }
    if (!options_.input.empty()) {
      const auto pixels = upscaler_.input();
      Error e = pixels ? write(options_.input, scene_.image(), *pixels) : pixels.error();
      if (failed(e)) return e;
    }
    if (options_.output.empty()) return {};
    const auto pixels = upscaler_.output();
    return pixels ? write(options_.output, upscaler_.result(), *pixels) : pixels.error();
  }

 private:
  static Error write(const std::string& path, const Image& image,
                     const std::vector<unsigned char>& pixels) {
    return samples::write_png(path, static_cast<int>(image.width), static_cast<int>(image.height),
                              4, pixels.data());
  }

  /// Seconds; with a given number of frames, always the same.
  float time_of(int frame) const {
    if (options_.frames) return static_cast<float>(frame) / 30;
    return std::chrono::duration<float>(std::chrono::steady_clock::now() - start_).count();
  }

  std::vector<std::string> text() const {
    return {std::string("model ") + (input_.model_on ? "on - right half" : "off - space: on"),
            "frame with model:    " + times_[1].text(), "frame without model: " + times_[0].text()};
  }

  Error frame(int number) {
    const bool on = input_.model_on;
    Error recorded;
    const double ms = presenter_.frame(canvas_.image(), [&](vk::CommandBuffer commands) {
      scene_.record(commands, time_of(number));
      if (on) recorded = upscaler_.record(commands, scene_.image());
      const bool better = on && !failed(recorded);
      canvas_.record(commands, scene_.image(), better ? &upscaler_.result() : nullptr, text());
    });
    if (failed(recorded)) return recorded;
    times_[on ? 1 : 0].add(ms);
    return on ? upscaler_.finish() : Error();
  }

  const Options& options_;
  const Gpu& gpu_;
  Upscaler& upscaler_;
  Scene scene_;
  Canvas canvas_;
  Presenter presenter_;
  Input input_;
  FrameTimes times_[2];  // without the model, and with it
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int run(const Options& o) {
  const Result<Package> package = Package::open(o.package);
  if (!package) return report(package.error());
  const Window window =
      open_window(static_cast<int>(o.width * kZoom), static_cast<int>(o.height * kZoom));
  const Gpu gpu(window.get(), o.validation);
  std::fprintf(stderr, "note: %s\n", gpu.name().c_str());
  const Result<std::unique_ptr<Upscaler>> upscaler =
      Upscaler::create(gpu, *package, o.width, o.height);
  if (!upscaler) return report(upscaler.error());
  Program program(o, gpu, window.get(), **upscaler);
  Error e = program.run();
  gpu.device().waitIdle();
  if (!failed(e)) e = program.save();
  if (failed(e)) return report(e);
  return gpu.complaints() ? kFailed : kDone;
}

void declare(CLI::App& app, Options& o) {
  app.add_option("--package", o.package,
                 "Model, as compiled by: reprise compile upscale.onnx -o ...")
      ->required();
  app.add_option("--width", o.width,
                 "Pixels that the renderer draws; the window has 4 times as many")
      ->check(CLI::Range(32, 2048))
      ->capture_default_str();
  app.add_option("--height", o.height, "Likewise")
      ->check(CLI::Range(32, 2048))
      ->capture_default_str();
  app.add_option("--frames", o.frames, "End after so many frames, the second half with the model")
      ->check(CLI::Range(2, 1000000));
  app.add_option("--screenshot", o.screenshot, "Write the last frame as PNG");
  app.add_option("--save-input", o.input, "Write what the model was given last, as PNG");
  app.add_option("--save-output", o.output, "Write what the model returned last, as PNG");
  app.add_flag("--validation", o.validation, "Turn on the Vulkan validation layers");
  app.footer(
      "Space switches the model on and off, Escape ends the program.\n"
      "Example: reprise-live --package upscale.rpk");
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Enlarges a moving picture with a model, inside the frame of a Vulkan renderer."};
  app.name("reprise-live");
  declare(app, o);
  return samples::run_command(app, argc, argv, [&] { return run(o); });
}

}  // namespace
}  // namespace live

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return live::parse_and_run(argc, argv); });
}
