// The C interface over memory that sessions share.
#include "capi/api.h"

using namespace reprise;
using namespace reprise::capi;

reprise_status reprise_arena_create(reprise_device* device, reprise_arena** out,
                                    reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!out) return missing("out");
    RP_ASSIGN(const auto held, find_handle(device));
    auto arena = std::make_shared<reprise_arena>();
    if (held->device) arena->arena = std::make_shared<SharedArena>(held->device);
    *out = make_handle(std::move(arena));
    return {};
  });
}

reprise_status reprise_arena_get_bytes(const reprise_arena* arena, uint64_t* bytes,
                                       reprise_error* error) {
  return guarded(error, [&]() -> Status {
    if (!bytes) return missing("bytes");
    RP_ASSIGN(const auto held, find_handle(arena));
    *bytes = held->arena ? held->arena->bytes() : 0;
    return {};
  });
}

void reprise_arena_free(reprise_arena* arena) {
  free_handle(arena);
}
