#include "python/native/session.h"

#include <algorithm>
#include <cstring>

#include "apps/common/waiting.h"
#include "python/native/dtypes.h"
#include "python/native/errors.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

std::string subject(const plan::Slot& slot, bool input) {
  return (input ? "input '" : "output '") + slot.name + "'";
}

/// Releases what a run borrowed, whatever happens. Needs the GIL.
struct Cleared {
  explicit Cleared(Call& of) : call(of) {}
  Cleared(const Cleared&) = delete;
  Cleared& operator=(const Cleared&) = delete;
  ~Cleared() {
    for (const auto& array : call.arrays) array->release();
    for (nb::object& o : call.memory) o.reset();
    call.tensors.clear();
    call.borrowed.clear();
    call.results.clear();
  }
  Call& call;
};

size_t length_of(nb::handle sequence, const char* what) {
  const Py_ssize_t n = PySequence_Check(sequence.ptr()) != 0 ? PySequence_Size(sequence.ptr()) : -1;
  if (n >= 0) return static_cast<size_t>(n);
  PyErr_Clear();
  throw nb::type_error(
      (std::string(what) + ": expected a list or tuple in the order of the slots").c_str());
}

nb::object item(nb::handle sequence, size_t i) {
  PyObject* object = PySequence_GetItem(sequence.ptr(), static_cast<Py_ssize_t>(i));
  if (object == nullptr) nb::raise_python_error();
  return nb::steal(object);
}

void check_length(size_t given, size_t expected, const char* what) {
  if (given == expected) return;
  refuse("the model has " + std::to_string(expected) + " " + what + ", " + std::to_string(given) +
         " are given");
}

/// The dims of an output whose memory can be made before a run.
std::optional<std::vector<int64_t>> fixed_dims(const plan::Slot& slot) {
  std::vector<int64_t> dims;
  for (const Expr& d : slot.shape) {
    if (!d.is_const()) return std::nullopt;
    dims.push_back(d.value());
  }
  return slot.dtype == DType::String ? std::nullopt : std::optional(std::move(dims));
}

}  // namespace

Session::Session(const Package& package, nb::handle device, const std::string& mode,
                 SessionOptions options)
    : package_(package.package),
      mode_(parse_mode(mode.empty() ? package.mode : mode)),
      timestamps_(options.timestamps) {
  device_ = to_device(device, [&](const DeviceInfo& d) { return why_unfit(*package_, d.facts); });
  device_->check_process();
  options.replay = mode_ == "reduce-overhead" || mode_ == "max-autotune";
  options.log = log_line;
  for (const plan::Slot& s : package_->io.outputs) fixed_.push_back(fixed_dims(s));
  inputs_ = inputs_of(package_->io);
  outputs_ = outputs_of(package_->io);
  {
    const nb::gil_scoped_release release;
    const app::Waiting waiting(app::builds_kernels(device_->info(), package_->model_name), log_now);
    session_ = of_process(std::shared_ptr<reprise::Session>(
        take(reprise::Session::create(package_, device_->get(), options))));
  }
  for (const std::string& note : session_->variant_notes()) log_line(Severity::Info, note);
  flush_log();
}

// Ending a session waits for its runs that are late.
Session::~Session() {
  const nb::gil_scoped_release release;
  session_ = nullptr;
}

void Session::prepare(Call& call) const {
  const auto& io = package_->io;
  if (!call.inputs.empty() || !call.arrays.empty()) return;
  call.inputs.resize(io.inputs.size());
  call.hosts.resize(io.inputs.size());
  call.memory.resize(io.outputs.size());
  call.outputs.resize(io.outputs.size());
  for (size_t i = 0; i < io.inputs.size(); ++i) call.inputs[i].name = io.inputs[i].name;
  for (size_t i = 0; i < io.inputs.size() + io.outputs.size(); ++i)
    call.arrays.push_back(std::make_unique<Array>());
}

void Session::check_array(const plan::Slot& slot, bool input, const Array& array) const {
  if (!carries(array.dtype(), slot.dtype)) {
    refuse(subject(slot, input) + " is " + array.str() + ", expected " +
           std::string(name_of(slot.dtype)) + " " + shape_str(slot.shape, package_->io.symbols));
  }
  const bool aligned = reinterpret_cast<uintptr_t>(array.data()) % array.element_bytes() == 0;
  if (!array.contiguous() || !aligned) {
    refuse(subject(slot, input) + ": the array " + array.str() + " is not " +
           (aligned ? "contiguous" : "aligned") + "; pass a copy (numpy.ascontiguousarray)");
  }
  if (!input && array.read_only()) refuse(subject(slot, input) + ": the array is read-only");
}

// Another library's CUDA memory, used in place.
void Session::lend_cuda(Call& call, const Array& array, Binding& b) const {
  if (!device_->is_cuda()) {
    refuse("'" + b.name + "' is CUDA memory, but the session runs on " + device_->info().id +
           "; copy it to the CPU, or make a session on that device");
  }
  const size_t bytes = array.bytes();
  if (bytes == 0) return;
  auto buffer = take(device_->get()->borrow(array.data(), bytes));
  b.device = buffer.get();
  b.dims.assign(array.dims().begin(), array.dims().end());
  call.borrowed.push_back(std::move(buffer));
}

void Session::bind_tensor(Call& call, const plan::Slot& slot, bool input, Binding& b,
                          const Tensor& tensor) const {
  const std::shared_ptr<TensorMemory>& memory = tensor.memory();
  if (tensor.dtype() != slot.dtype) {
    refuse(subject(slot, input) + " is " + describe(tensor.dtype(), tensor.dims()) + ", expected " +
           std::string(name_of(slot.dtype)) + " " + shape_str(slot.shape, package_->io.symbols));
  }
  call.tensors.push_back(memory);
  if (memory->buffer() != nullptr) {
    b.device = memory->buffer();
    if (input) b.dims = tensor.dims();
    if (input && tensor.bytes() > memory->size()) refuse(subject(slot, true) + " was shrunk");
  } else if (!input) {
    b.host_output = {memory->mapped(), memory->size()};
  }
}

void Session::bind_input(Call& call, size_t i, nb::handle object) const {
  const plan::Slot& slot = package_->io.inputs[i];
  Binding& b = call.inputs[i];
  b.host = nullptr;
  b.device = nullptr;
  b.dims.clear();
  if (object.is_none() && slot.initial != plan::Slot::kNone) return;  // left out
  Tensor* tensor = nullptr;
  if (nb::try_cast(object, tensor, false) && tensor != nullptr) {
    bind_tensor(call, slot, true, b, *tensor);
    if (b.device != nullptr) return;
    const std::shared_ptr<TensorMemory>& memory = call.tensors.back();
    call.hosts[i].borrow_again(slot.dtype, tensor->dims(), {memory->mapped(), tensor->bytes()});
    b.host = &call.hosts[i];
    return;
  }
  if (slot.dtype == DType::String) {
    call.hosts[i] = strings_of(object);
    b.host = &call.hosts[i];
    return;
  }
  Array& array = *call.arrays[i];
  array.borrow(object, device_->stream());
  check_array(slot, true, array);
  const size_t bytes = array.bytes();
  if (array.on_cuda()) lend_cuda(call, array, b);
  if (b.device != nullptr) return;
  call.hosts[i].borrow_again(slot.dtype, array.dims(), {array.data(), bytes});
  b.host = &call.hosts[i];
}

void Session::bind_output(Call& call, size_t o, nb::handle object) const {
  const plan::Slot& slot = package_->io.outputs[o];
  Binding& b = call.outputs[call.bound++];
  call.memory[o] = nb::borrow(object);
  b.name = slot.name;
  b.host_output = {};
  b.device = nullptr;
  Tensor* tensor = nullptr;
  if (nb::try_cast(object, tensor, false) && tensor != nullptr) {
    bind_tensor(call, slot, false, b, *tensor);
    return;
  }
  if (slot.dtype == DType::String)
    throw StatusError(unsupported(subject(slot, false) + " holds strings: pass None for it"));
  Array& array = *call.arrays[package_->io.inputs.size() + o];
  array.borrow(object, device_->stream());
  check_array(slot, false, array);
  const size_t bytes = array.bytes();
  if (array.on_cuda()) lend_cuda(call, array, b);
  if (b.device == nullptr) b.host_output = {array.data(), bytes};
}

// The dims of outputs that depend on data are known only now. The run has checked that they fit.
nb::list Session::collect(const Call& call) const {
  nb::list list;
  for (size_t o = 0; o < call.results.size(); ++o) {
    const HostTensor& result = call.results[o];
    const nb::object& given = call.memory[o];
    if (!given.is_valid()) {
      list.append(to_numpy(result));
      continue;
    }
    Tensor* tensor = nullptr;
    if (nb::try_cast(given, tensor, false) && tensor != nullptr) {
      tensor->set_dims(result.dims());
    } else {
      const Array& array = *call.arrays[package_->io.inputs.size() + o];
      if (!std::ranges::equal(array.dims(), result.dims())) {
        refuse("output '" + package_->io.outputs[o].name + "' is " +
               describe(result.dtype(), result.dims()) + ", the array for it " + array.str());
      }
    }
    list.append(given);
  }
  return list;
}

void Session::keep_late(Call& call) {
  if (call.tensors.empty() && call.borrowed.empty()) return;  // the device used copies
  auto kept = std::make_unique<Call>();
  std::swap(*kept, call);
  late_.push_back(std::move(kept));
}

nb::list Session::run(nb::handle inputs, nb::handle outputs, Times* times) {
  device_->check_process();
  const auto& io = package_->io;
  const bool has_outputs = !outputs.is_none();
  check_length(length_of(inputs, "inputs"), io.inputs.size(), "inputs");
  if (has_outputs) check_length(length_of(outputs, "outputs"), io.outputs.size(), "outputs");
  const Pool<Call>::Lease call = calls_->take();
  const Cleared cleared(*call);
  prepare(*call);
  call->bound = 0;
  for (size_t i = 0; i < io.inputs.size(); ++i) bind_input(*call, i, item(inputs, i));
  for (size_t o = 0; o < io.outputs.size(); ++o) {
    nb::object given = has_outputs ? item(outputs, o) : nb::none();
    if (given.is_none() && fixed_[o]) given = empty_numpy(io.outputs[o].dtype, *fixed_[o]);
    if (!given.is_none()) bind_output(*call, o, given);
  }
  Status status;
  {
    const nb::gil_scoped_release release;
    std::optional<app::Waiting> waiting;
    if (!has_run_.exchange(true)) waiting.emplace(app::runs_session(*session_), log_now);
    status = session_->run_into(call->inputs, std::span(call->outputs).first(call->bound),
                                call->results, times != nullptr ? &call->stats : nullptr);
  }
  if (is_device_failure(status.code())) keep_late(*call);
  check(std::move(status));
  if (times != nullptr) {
    *times = {call->stats.host_submit_us, call->stats.total_us, call->stats.bytes_copied,
              call->stats.kernel_us, call->stats.plan};
  }
  return collect(*call);
}

std::vector<std::string> Session::kernels_of(uint32_t plan) const {
  const package::Variant* const compiled = session_->compiled();
  if (plan > (compiled ? compiled->plans.size() : 0))
    refuse("the session has no plan " + std::to_string(plan));
  std::vector<std::string> names;
  const auto add = [&](const plan::Plan& p) {
    for (const plan::Step& step : p.steps) {
      const auto* launch = std::get_if<plan::Launch>(&step.what);
      if (launch != nullptr) names.push_back(p.kernels[launch->kernel].name);
    }
  };
  add(session_->plan(plan));
  if (compiled)
    for (const package::DeviceBody& body : compiled->bodies) add(body.plan);
  return names;
}

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

nb::tuple Session::state_rows(const std::string& name) {
  const std::shared_ptr<reprise::Session> session = checked();
  Result<StateRows> rows = internal_error("no value");
  {
    const nb::gil_scoped_release release;
    rows = session->state_rows(name);
  }
  const StateRows known = take(std::move(rows));
  return nb::make_tuple(known.length, known.capacity, known.limit);
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
