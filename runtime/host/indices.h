// Data-dependent indices, shared by Gather*, Scatter* and similar operators.
#pragma once

#include "runtime/host/support.h"

namespace reprise::host {

/// All indices of an int32 or int64 tensor.
Result<Dims> read_indices(const HostTensor& t, std::string_view role);
/// Adds the dimension to a negative index. An index out of range is an error that names the index,
/// its position and the dimension.
Result<int64_t> wrap_index(int64_t index, int64_t dim, int64_t axis, int64_t position);
/// For GatherElements and ScatterElements: checks that the ranks are equal and that the indices are
/// not larger than the data in any dimension but `axis`.
Status check_elements_shape(const Dims& data, const Dims& indices, int64_t axis);
/// For the same operators: the offset into data of each element of the indices.
Result<Dims> element_offsets(const Dims& data, const Dims& index_dims, const Dims& indices,
                             int64_t axis);
/// For GatherND and ScatterND: the offset of each index tuple into one batch entry of data.
Result<Dims> tuple_offsets(const Dims& data, const Dims& indices, int64_t tuple, int64_t batch);

}  // namespace reprise::host
