#include "apps/reprise/image_slots.h"

namespace reprise::app {

namespace {

/// Calls `f` with the direction and the slot of each image.
template <typename F>
void for_images(const plan::Interface& io, const F& f) {
  for (const plan::Slot& s : io.inputs)
    if (s.image != ImageFormat::None) f("input", s);
  for (const plan::Slot& s : io.outputs)
    if (s.image != ImageFormat::None) f("output", s);
}

}  // namespace

Json images_json(const plan::Interface& io) {
  Json out = Json::array();
  for_images(io, [&](const char* direction, const plan::Slot& s) {
    out.push_back({{"name", s.name},
                   {"direction", direction},
                   {"format", name_of(s.image)},
                   {"shape", shape_str(s.shape, io.symbols)},
                   {"processing", s.processing}});
  });
  return out;
}

void print_images(const Output& out, const plan::Interface& io) {
  for_images(io, [&](const char* direction, const plan::Slot& s) {
    out.text("image " + std::string(direction) + " '" + s.name +
             "': " + std::string(name_of(s.image)) + " " + shape_str(s.shape, io.symbols) +
             (s.processing.empty() ? "" : ", " + s.processing) + "\n");
  });
}

}  // namespace reprise::app
