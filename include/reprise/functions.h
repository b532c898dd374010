/** @file
 * The functions of reprise.h as a table, for applications that open the library at run time: one
 * lookup instead of one for each function. Members are added at the end only. */
#ifndef REPRISE_FUNCTIONS_H_
#define REPRISE_FUNCTIONS_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup functions Tables of functions
 * For applications that open the library at run time. reprise_compiler_functions is the table of
 * the compiler's library.
 * @{ */

/** The functions of reprise.h. The library lacks members that do not end within `struct_size`. */
typedef struct reprise_functions {
  size_t struct_size; /**< the library's, which may be smaller or larger than the caller's */
  uint32_t abi;       /**< the version that was asked for */
  uint32_t reserved;  /**< zero */
  /** The function of reprise.h with "reprise_" before this name. */
  /** @{ */
  size_t (*dtype_size)(reprise_dtype dtype);
  const char* (*version)(void);
  uint32_t (*abi_version)(void);
  reprise_status (*package_open)(const char* path, reprise_package** out, reprise_error* error);
  reprise_status (*package_open_memory)(const void* bytes, size_t size, reprise_package** out,
                                        reprise_error* error);
  reprise_status (*package_save)(const reprise_package* package, const char* path,
                                 reprise_error* error);
  void (*package_free)(reprise_package* package);
  reprise_status (*package_get_info)(const reprise_package* package, reprise_package_info* info,
                                     reprise_error* error);
  reprise_status (*package_variant)(const reprise_package* package, size_t index,
                                    reprise_variant* variant, reprise_error* error);
  reprise_status (*list_devices)(reprise_device_info* infos, size_t capacity, size_t* count,
                                 reprise_error* error);
  reprise_status (*device_open)(const char* id, const reprise_device_options* options,
                                reprise_device** out, reprise_error* error);
  reprise_status (*device_get_info)(const reprise_device* device, reprise_device_info* info,
                                    reprise_error* error);
  reprise_status (*device_trim)(reprise_device* device, reprise_error* error);
  void (*device_free)(reprise_device* device);
  reprise_status (*buffer_create)(reprise_device* device, uint64_t bytes, reprise_buffer** out,
                                  reprise_error* error);
  reprise_status (*buffer_borrow)(reprise_device* device, uint64_t handle, uint64_t bytes,
                                  reprise_buffer** out, reprise_error* error);
  reprise_status (*buffer_write)(reprise_buffer* buffer, uint64_t offset, const void* data,
                                 uint64_t bytes, reprise_error* error);
  reprise_status (*buffer_read)(const reprise_buffer* buffer, uint64_t offset, void* data,
                                uint64_t bytes, reprise_error* error);
  void (*buffer_free)(reprise_buffer* buffer);
  reprise_status (*package_input)(const reprise_package* package, size_t index, reprise_slot* slot,
                                  reprise_error* error);
  reprise_status (*package_output)(const reprise_package* package, size_t index, reprise_slot* slot,
                                   reprise_error* error);
  reprise_status (*package_state)(const reprise_package* package, size_t index, reprise_slot* slot,
                                  reprise_error* error);
  reprise_status (*value_from_tensor)(const reprise_tensor* tensor, reprise_value** out,
                                      reprise_error* error);
  reprise_status (*value_create)(reprise_kind kind, reprise_dtype dtype,
                                 const reprise_value* const* items, size_t count,
                                 reprise_value** out, reprise_error* error);
  reprise_status (*value_get_info)(const reprise_value* value, reprise_value_info* info,
                                   reprise_error* error);
  reprise_status (*value_get_item)(const reprise_value* value, size_t index, reprise_value** out,
                                   reprise_error* error);
  reprise_status (*value_get_tensor)(const reprise_value* value, reprise_tensor* tensor,
                                     reprise_error* error);
  void (*value_free)(reprise_value* value);
  reprise_status (*session_create)(const reprise_package* package, reprise_device* device,
                                   const reprise_session_options* options, reprise_session** out,
                                   reprise_error* error);
  void (*session_free)(reprise_session* session);
  size_t (*session_input_count)(const reprise_session* session);
  size_t (*session_output_count)(const reprise_session* session);
  reprise_status (*session_input)(const reprise_session* session, size_t index, reprise_slot* slot,
                                  reprise_error* error);
  reprise_status (*session_output)(const reprise_session* session, size_t index, reprise_slot* slot,
                                   reprise_error* error);
  reprise_status (*session_get_info)(const reprise_session* session, reprise_session_info* info,
                                     reprise_error* error);
  reprise_status (*session_run)(reprise_session* session, const reprise_tensor* inputs,
                                size_t input_count, reprise_tensor* outputs, size_t output_count,
                                reprise_results** results, reprise_run_stats* stats,
                                reprise_error* error);
  reprise_status (*results_get_value)(const reprise_results* results, size_t index,
                                      reprise_value** out, reprise_error* error);
  reprise_status (*results_get)(const reprise_results* results, size_t index,
                                reprise_tensor* tensor, reprise_error* error);
  void (*results_free)(reprise_results* results);
  reprise_status (*run_create)(reprise_session* session, reprise_run** out, reprise_error* error);
  reprise_status (*run_bind)(reprise_run* run, const reprise_tensor* inputs, size_t input_count,
                             reprise_tensor* outputs, size_t output_count, reprise_error* error);
  reprise_status (*run_submit)(reprise_run* run, const reprise_submit_options* options,
                               reprise_error* error);
  reprise_status (*run_record)(reprise_run* run, const reprise_record_options* options,
                               reprise_error* error);
  reprise_status (*run_poll)(reprise_run* run, int32_t* ended, reprise_error* error);
  reprise_status (*run_wait)(reprise_run* run, reprise_results** results, reprise_run_stats* stats,
                             reprise_error* error);
  void (*run_free)(reprise_run* run);
  size_t (*session_state_count)(const reprise_session* session);
  reprise_status (*session_state)(const reprise_session* session, size_t index, reprise_slot* slot,
                                  reprise_error* error);
  reprise_status (*session_read_state)(reprise_session* session, const char* name, void* data,
                                       size_t bytes, reprise_error* error);
  reprise_status (*session_write_state)(reprise_session* session, const char* name,
                                        const void* data, size_t bytes, reprise_error* error);
  reprise_status (*session_save_states)(reprise_session* session, const char* path,
                                        reprise_error* error);
  reprise_status (*session_load_states)(reprise_session* session, const char* path,
                                        reprise_error* error);
  reprise_status (*session_reset_states)(reprise_session* session, reprise_error* error);
  reprise_status (*device_set_memory_budget)(reprise_device* device, uint64_t bytes,
                                             reprise_error* error);
  reprise_status (*session_reopen)(reprise_session* session, reprise_device* device,
                                   reprise_error* error);
  reprise_status (*run_cancel)(reprise_run* run, reprise_error* error);
  reprise_status (*package_open_part)(intptr_t file, uint64_t offset, uint64_t length,
                                      reprise_package** out, reprise_error* error);
  reprise_status (*buffer_import)(reprise_device* device, const reprise_external_memory* memory,
                                  reprise_buffer** out, reprise_error* error);
  reprise_status (*arena_create)(reprise_device* device, reprise_arena** out, reprise_error* error);
  reprise_status (*arena_get_bytes)(const reprise_arena* arena, uint64_t* bytes,
                                    reprise_error* error);
  void (*arena_free)(reprise_arena* arena);
  reprise_status (*package_symbol)(const reprise_package* package, size_t index,
                                   reprise_symbol* symbol, reprise_error* error);
  reprise_status (*package_metadata)(const reprise_package* package, size_t index,
                                     const char** name, const char** value, reprise_error* error);
  reprise_status (*vulkan_wanted_features)(reprise_vulkan_device* device, reprise_error* error);
  const char* (*error_node)(const reprise_error* error, size_t index);
  reprise_status (*session_state_rows)(reprise_session* session, const char* name,
                                       reprise_state_rows* rows, reprise_error* error);
  reprise_status (*session_truncate_states)(reprise_session* session, const char* name,
                                            int64_t length, reprise_error* error);
  reprise_status (*session_reserve_states)(reprise_session* session, const char* name, int64_t rows,
                                           reprise_error* error);
  reprise_status (*session_limit_states)(reprise_session* session, const char* name, int64_t rows,
                                         reprise_error* error);
  reprise_status (*session_write_state_tensor)(reprise_session* session,
                                               const reprise_tensor* value, reprise_error* error);
  reprise_status (*states_create)(reprise_session* session, reprise_states** out,
                                  reprise_error* error);
  reprise_status (*states_fork)(reprise_states* states, int64_t length, reprise_states** out,
                                reprise_error* error);
  reprise_status (*states_get_info)(reprise_states* states, reprise_states_info* info,
                                    reprise_error* error);
  void (*states_free)(reprise_states* states);
  reprise_status (*session_bind_states)(reprise_session* session, reprise_states* states,
                                        reprise_error* error);
  reprise_status (*run_bind_states)(reprise_run* run, reprise_states* states, reprise_error* error);
  /** @} */
} reprise_functions;

/** Returns the table for a REPRISE_ABI_VERSION, or null if the library does not have that version.
 * The table lives as long as the process. Look this function up with dlsym() or GetProcAddress().
 */
REPRISE_API const reprise_functions* reprise_get_functions(uint32_t abi_version);
/** The type of reprise_get_functions, for the address that was looked up. */
typedef const reprise_functions* (*reprise_get_functions_function)(uint32_t abi_version);

/** @} */

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
