// What the fault layer does to a driver. It is a Vulkan layer for tests: an application that runs
// with VK_INSTANCE_LAYERS=VK_LAYER_REPRISE_faults and VK_ADD_LAYER_PATH=build/lib/vulkan-faults has
// a driver with the faults that REPRISE_FAULTS lists, separated by spaces:
//
//   opcode:FROM:TO[:KERNEL]    instructions with opcode FROM are compiled as if it were TO
//   constant:FROM:TO[:KERNEL]  32-bit float constants of that value have another
//   short:KERNEL               dispatches of the kernel execute no workgroup whose x is the last
//   skip:N                     every Nth submission executes nothing
//   lost:N                     every Nth submission loses its device: it and all that follows on
//                              this device fails with VK_ERROR_DEVICE_LOST
//   hide:FEATURE               devices lack a feature: buffer-addresses, update-after-bind (of
//                              storage buffers), vulkan-1.2 (and later versions), large-buffers (of
//                              more than 1 MB)
//
// KERNEL is a kernel's name, as `reprise check` prints it; without one every kernel has the fault.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// The layer's library exports these; tests load it once more to call them. Faults count for modules
// and pipelines that are created afterwards, `short`, `skip` and `lost` at once. 0: the text is
// malformed, and there are no faults then.
typedef int (*reprise_faults_set_fn)(const char* text);
// How often the faults have changed something since they were set.
typedef unsigned (*reprise_faults_count_fn)(void);

#ifdef __cplusplus
}
#endif
