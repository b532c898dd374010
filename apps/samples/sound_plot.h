// Sound in the plots of samples.
#pragma once

#include "apps/samples/svg.h"
#include "apps/samples/wav.h"

namespace samples {

/// A part of a plot, in pixels.
struct Box {
  double left, top, width, height;
};

/// Draws the highest and lowest sample below each half of a pixel; the loudest one touches the box.
void draw_sound(Svg& svg, const char* css_class, const Sound& sound, const Box& box);
/// Draws an axis with marks of seconds below it.
void draw_seconds(Svg& svg, const char* css_class, double duration, double left, double y,
                  double width);

}  // namespace samples
