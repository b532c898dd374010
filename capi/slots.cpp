// How the C interface describes inputs, outputs and states.
#include "capi/api.h"

namespace reprise::capi {

Status check_index(size_t index, size_t count, const char* what) {
  if (index < count) return {};
  return {Code::Usage, std::string(what) + ": there are " + std::to_string(count) +
                           ", so there is none with the index " + std::to_string(index)};
}

Status describe_slot(const plan::Slot& slot, const std::string& shape, reprise_slot* out) {
  if (!out) return missing("slot");
  RP_TRY(check_out(out, "reprise_slot"));
  if (slot.shape.size() > REPRISE_MAX_RANK)
    return unsupported("'" + slot.name + "' has a rank over 16");
  reprise_slot s = REPRISE_SLOT_INIT;
  s.name = slot.name.c_str();
  s.shape = shape.c_str();
  s.kind = static_cast<reprise_kind>(container_of(slot.dtype));
  s.dtype = static_cast<reprise_dtype>(element_of(slot.dtype));
  s.rank = static_cast<uint32_t>(slot.shape.size());
  for (size_t a = 0; a < slot.shape.size(); ++a)
    s.dims[a] = slot.shape[a].is_const() ? slot.shape[a].value() : -1;
  s.image = static_cast<reprise_image_format>(slot.image);
  s.processing = slot.processing.c_str();
  s.has_value = slot.initial != plan::Slot::kNone ? 1 : 0;
  write_struct(s, out);
  return {};
}

}  // namespace reprise::capi
