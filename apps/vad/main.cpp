// reprise-vad: finds the parts of a recording in which someone speaks, with Silero's model. It is a
// sample of a model with a state that stays on the device from run to run.
#include <chrono>
#include <cstdio>

#include "apps/samples/command_line.h"
#include "apps/samples/device.h"
#include "apps/samples/outcome.h"
#include "apps/samples/wav.h"
#include "apps/vad/detector.h"
#include "apps/vad/plot.h"
#include "apps/vad/segments.h"

namespace vad {
namespace {

using reprise::Device;
using reprise::Package;
using samples::failed;
using samples::kDone;
using samples::kFailed;
using samples::report;
using samples::Sound;

constexpr double kWindowSeconds = static_cast<double>(kWindow) / kRate;

struct Options {
  std::string package, sound, device = "auto", plot, probabilities;
  SegmentOptions segments;
  samples::Validation validation;
};

Result<std::vector<float>> probabilities_of(const Sound& sound, Detector& detector) {
  std::vector<float> out;
  const std::span<const float> samples(sound.samples);
  for (size_t at = 0; at < samples.size(); at += kWindow) {
    const Result<float> p =
        detector.next(samples.subspan(at, std::min(kWindow, samples.size() - at)));
    if (!p) return p.error();
    out.push_back(*p);
  }
  return out;
}

Error write_probabilities(const std::vector<float>& probabilities, const std::string& path) {
  FILE* out = std::fopen(path.c_str(), "w");
  if (!out) return {REPRISE_IO, path + ": cannot be written"};
  for (const float p : probabilities) std::fprintf(out, "%.7g\n", static_cast<double>(p));
  return std::fclose(out) == 0 ? Error() : Error{REPRISE_IO, path + ": cannot be written"};
}

int run(Options& o) {
  const Result<Sound> recorded = samples::read_wav(o.sound);
  if (!recorded) return report(recorded.error());
  const Sound sound = samples::resampled(*recorded, kRate);
  const Result<Package> package = Package::open(o.package);
  if (!package) return report(package.error());
  const Result<Device> device = samples::open_device(o.device, *package, o.validation);
  if (!device) return report(device.error());
  Result<Detector> detector = Detector::create(*package, *device);
  if (!detector) return report(detector.error());

  const auto start = std::chrono::steady_clock::now();
  const Result<std::vector<float>> probabilities = probabilities_of(sound, *detector);
  if (!probabilities) return report(probabilities.error());
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const double duration = static_cast<double>(sound.samples.size()) / kRate;
  std::fprintf(stderr, "note: %s, %.1f s of sound in %.2f s\n", device->info().id, duration,
               spent.count());

  const std::vector<Segment> segments =
      find_segments(*probabilities, kWindowSeconds, duration, o.segments);
  for (const Segment& s : segments) std::printf("%.2f %.2f\n", s.begin, s.end);
  Error e;
  if (!o.plot.empty())
    e = write_plot(sound, *probabilities, kWindowSeconds, segments, o.segments.threshold, o.plot);
  if (!failed(e) && !o.probabilities.empty())
    e = write_probabilities(*probabilities, o.probabilities);
  if (failed(e)) return report(e);
  return o.validation.complaints ? kFailed : kDone;
}

void declare(CLI::App& app, Options& o) {
  SegmentOptions& s = o.segments;
  app.add_option("FILE", o.sound, "A WAV file")->required();
  app.add_option("--package", o.package, "Silero's model as README.md shows how to compile it")
      ->required();
  samples::add_device_option(app, o.device);
  app.add_option("--plot", o.plot, "Draw the sound and the speech in it, as SVG");
  app.add_option("--probabilities", o.probabilities,
                 "Write the probability of speech in each 32 ms, one in a line");
  app.add_option("--threshold", s.threshold, "Probability at which speech begins")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--shortest-speech", s.shortest_speech,
                 "Seconds; speech that is shorter is left out")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--shortest-silence", s.shortest_silence,
                 "Seconds; silence that is shorter does not end speech")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  samples::add_validation_option(app, o.validation);
  app.footer(
      "Prints the beginning and end of each part with speech, in seconds.\n"
      "Example: reprise-vad --package vad.rpk --plot speech.svg recording.wav");
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Finds speech in a recording with Silero's model, on a GPU."};
  app.name("reprise-vad");
  declare(app, o);
  return samples::run_command(app, argc, argv, [&] { return run(o); });
}

}  // namespace
}  // namespace vad

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return vad::parse_and_run(argc, argv); });
}
