// States of sessions: values by name, and files.
#include <algorithm>
#include <cstring>

#include "python/native/dtypes.h"
#include "python/native/errors.h"
#include "python/native/session.h"

namespace nb = nanobind;

namespace reprise::python {

std::shared_ptr<reprise::Session> Session::checked() const {
  device_->check_process();
  return session_;
}

nb::object Session::read_state(const std::string& name) {
  const std::shared_ptr<reprise::Session> session = checked();
  Result<HostTensor> value = internal_error("no value");
  {
    const nb::gil_scoped_release release;
    value = session->read_state(name);
  }
  return to_numpy(take(std::move(value)));
}

void Session::write_state(const std::string& name, nb::handle value) {
  const std::shared_ptr<reprise::Session> session = checked();
  const auto& states = package_->io.states;
  const auto slot = std::ranges::find(states, name, &plan::StateSlot::name);
  Array array;
  array.borrow(value);
  const std::string subject = "state '" + name + "'";
  if (array.on_cuda()) refuse(subject + ": its value must be in host memory");
  if (!array.contiguous()) refuse(subject + ": the array " + array.str() + " is not contiguous");
  const bool fits = slot != states.end() && carries(array.dtype(), slot->dtype);
  const DType dtype = fits ? slot->dtype : array.dtype();
  if (dtype == DType::Invalid)
    refuse(subject + ": the array " + array.str() + " has no dtype of ours");
  HostTensor tensor(dtype, {array.dims().begin(), array.dims().end()});
  if (const size_t bytes = array.bytes(); bytes > 0)
    std::memcpy(tensor.mutable_bytes().data(), array.data(), bytes);
  Status status;
  {
    const nb::gil_scoped_release release;
    status = session->write_state(name, tensor);
  }
  check(std::move(status));
}

}  // namespace reprise::python
