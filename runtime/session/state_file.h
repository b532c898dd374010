// The values of states by name, and files of them.
#pragma once

#include <string>
#include <vector>

#include "runtime/package/package.h"

namespace reprise {

/// The index of a state; an error that names the others if there is none of that name.
Result<size_t> find_state(const std::vector<plan::StateSlot>& states, const std::string& name);
/// Checks the dtype and dims of a value for a state.
Status check_value(const plan::StateSlot& slot, const HostTensor& value);
/// The indices of all states.
std::vector<size_t> all_of(const std::vector<plan::StateSlot>& states);

/// Writes the values of all states of a package to a file: a package that computes nothing.
Status write_state_file(const package::Package& of, std::vector<HostTensor> values,
                        const std::string& path);
/// Reads the values of `states`, in their order, from such a file, or the initial values from a
/// package. It must have the same states.
Result<std::vector<HostTensor>> read_state_file(const std::string& path,
                                                const std::vector<plan::StateSlot>& states);

}  // namespace reprise
