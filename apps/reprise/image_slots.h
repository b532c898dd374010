// Inputs and outputs that are images, as `explain` shows them.
#pragma once

#include "apps/reprise/command.h"

namespace reprise::app {

Json images_json(const plan::Interface& io);
void print_images(const Output& out, const plan::Interface& io);

}  // namespace reprise::app
