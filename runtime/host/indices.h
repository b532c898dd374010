// Data-dependent indices, shared by Gather*, Scatter* and their relatives.
#pragma once

#include "runtime/host/support.h"

namespace reprise::host {

/// All indices of an int32 or int64 tensor.
Result<Dims> read_indices(const HostTensor& t, std::string_view role);
/// A non-negative index, or an error naming the index, its position and the dimension.
Result<int64_t> wrap_index(int64_t index, int64_t dim, int64_t axis, int64_t position);
/// GatherElements and ScatterElements: equal ranks, indices no larger than data off the axis.
Status check_elements_shape(const Dims& data, const Dims& indices, int64_t axis);
/// Offset into data of each element of the indices (those two operators).
Result<Dims> element_offsets(const Dims& data, const Dims& index_dims, const Dims& indices,
                             int64_t axis);
/// Offset into one batch entry of data of each index tuple (GatherND, ScatterND).
Result<Dims> tuple_offsets(const Dims& data, const Dims& indices, int64_t tuple, int64_t batch);

}  // namespace reprise::host
