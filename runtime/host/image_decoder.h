// ImageDecoder.
#pragma once

#include "runtime/host/tables.h"

namespace reprise::host {

Table image_table();

}  // namespace reprise::host
