// reprise-ocr: reads the text of a picture with PP-OCR. It is a sample of an application that
// compiles its models on the user's machine, once, and runs them with sizes that change.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/ocr/reader.h"
#include "apps/samples/command_line.h"
#include "apps/samples/device.h"
#include "apps/samples/outcome.h"
#include "apps/samples/text_output.h"

namespace ocr {
namespace {

using samples::failed;
using samples::kDone;
using samples::kFailed;
using samples::report;
using Json = nlohmann::ordered_json;

struct Options {
  ReaderOptions reader;
  samples::Validation validation;
  std::string image, json, draw;
};

Json box_of(const Line& line) {
  Json box = Json::array();
  for (const Point p : line.box) box.push_back({p.x, p.y});
  return box;
}

Error write_json(const std::vector<Line>& lines, const Image& image, const Reader& reader,
                 const Options& o) {
  Json list = Json::array();
  for (const Line& line : lines) {
    list.push_back({{"text", line.text.text},
                    {"score", line.text.score},
                    {"box", box_of(line)},
                    {"turned", line.turned}});
  }
  const Times& t = reader.times();
  const Json document{
      {"image", o.image},
      {"width", image.width},
      {"height", image.height},
      {"device", reader.device().id},
      {"milliseconds", {{"detect", t.detect}, {"turn", t.turn}, {"recognise", t.recognise}}},
      {"lines", std::move(list)}};
  return samples::write_text(o.json,
                             document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Draws a frame around each line, with a thicker side at the bottom of the text.
Error draw(Image image, const std::vector<Line>& lines, const std::string& path) {
  const int thickness = std::max(1, std::max(image.width, image.height) / 500);
  for (const Line& line : lines) {
    const size_t bottom = line.turned ? 0 : 2;
    for (size_t side = 0; side < 4; ++side)
      draw_line(image, line.box[side], line.box[(side + 1) % 4], {226, 61, 40},
                side == bottom ? 2 * thickness : thickness);
  }
  return write_png(image, path);
}

int run(Options& o) {
  const Result<Image> image = read_image(o.image);
  if (!image) return report(image.error());
  Result<Reader> reader = Reader::open(o.reader, o.validation);
  if (!reader) return report(reader.error());
  const Result<std::vector<Line>> lines = reader->read(*image);
  if (!lines) return report(lines.error());
  if (o.json != "-") {
    for (const Line& line : *lines) std::printf("%s\n", line.text.text.c_str());
  }
  Error e;
  if (!o.json.empty()) e = write_json(*lines, *image, *reader, o);
  if (failed(e)) return report(e);
  if (!o.draw.empty()) e = draw(*image, *lines, o.draw);
  if (failed(e)) return report(e);
  return o.validation.complaints ? kFailed : kDone;
}

void declare(CLI::App& app, Options& o) {
  ReaderOptions& r = o.reader;
  app.add_option("IMAGE", o.image, "A PNG or JPEG file")->required();
  app.add_option("--models", r.models,
                 "Folder with det.onnx, cls.onnx and rec.onnx, or the packages made of them")
      ->required();
  samples::add_device_option(app, r.device);
  samples::add_compile_options(app, r.targets, r.recompile, "are packages");
  app.add_option("--json", o.json, "Write the result as JSON to a file; - for standard output");
  app.add_option("--draw", o.draw, "Write the picture with boxes around lines, as PNG");
  app.add_option("--side", r.side, "Pixels of the longer side in which text is looked for")
      ->check(CLI::Range(32, 8192))
      ->capture_default_str();
  app.add_option("--batch", r.batch, "Lines per run of a model")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--min-score", r.least_score, "Leave out lines that are less certain")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  samples::add_validation_option(app, o.validation);
  app.footer(
      "tools/models ocr fetches the models.\n"
      "Example: reprise-ocr --models .cache/ocr --draw boxes.png photo.jpg");
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Reads the text of a picture with PP-OCR, on a GPU."};
  app.name("reprise-ocr");
  declare(app, o);
  return samples::run_command(app, argc, argv, [&] { return run(o); });
}

}  // namespace
}  // namespace ocr

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return ocr::parse_and_run(argc, argv); });
}
