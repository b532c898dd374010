#include "python/native/package.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/native/arrays.h"
#include "python/native/errors.h"
#include "runtime/run/state_memory.h"

namespace nb = nanobind;

namespace reprise::python {
namespace {

nb::tuple shape_of(const Shape& shape, std::span<const Symbol> symbols) {
  nb::list dims;
  for (const Expr& dim : shape) {
    if (dim.is_const()) {
      dims.append(dim.value());
    } else {
      dims.append(dim.str(symbols));
    }
  }
  return nb::tuple(dims);
}

template <typename S>
nb::list slots_of(const std::vector<S>& slots, std::span<const Symbol> symbols) {
  nb::list out;
  for (const plan::Slot& s : slots)
    out.append(
        nb::cast(Slot{s.name, s.dtype, shape_of(s.shape, symbols),
                      s.image == ImageFormat::None ? std::string() : std::string(name_of(s.image)),
                      std::is_same_v<S, plan::Slot> && s.initial != plan::Slot::kNone}));
  return out;
}

Package open_package(const std::string& path) {
  const nb::gil_scoped_release release;
  return {take(package::read(path))};
}

Package package_of_bytes(const nb::bytes& bytes) {
  const std::span data(reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size());
  // The package may live longer than the bytes.
  auto own = std::make_shared<std::vector<std::byte>>(data.begin(), data.end());
  const nb::gil_scoped_release release;
  const std::span<const std::byte> view(*own);
  return {take(package::read_memory(view, std::move(own)))};
}

/// Bytes that are not UTF-8 are replaced, because models may have any.
nb::dict metadata_of(const Package& p) {
  const auto text = [](const std::string& s) {
    return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
  };
  nb::dict out;
  for (const auto& [name, value] : p.package->metadata) out[text(name)] = text(value);
  return out;
}

/// The initial values of the states by name.
nb::dict initial_states(const Package& p) {
  nb::dict out;
  for (const plan::StateSlot& s : p.package->io.states)
    out[nb::str(s.name.c_str())] = to_numpy(take(initial_state(*p.package, s)));
  return out;
}

std::string repr(const Package& p) {
  std::string variants;
  for (const package::Variant& v : p.package->variants)
    variants += (variants.empty() ? "" : ", ") + v.name;
  return "<reprise.Package '" + p.package->model_name + "' for " +
         (variants.empty() ? "the host" : variants) + ">";
}

}  // namespace

nb::list inputs_of(const plan::Interface& io) {
  return slots_of(io.inputs, io.symbols);
}

nb::list outputs_of(const plan::Interface& io) {
  return slots_of(io.outputs, io.symbols);
}

nb::list states_of(const plan::Interface& io) {
  return slots_of(io.states, io.symbols);
}

std::string parse_mode(const std::string& mode) {
  if (mode == "max-autotune-no-cudagraphs") return "max-autotune-no-graphs";
  for (const char* known :
       {"default", "reduce-overhead", "max-autotune", "max-autotune-no-graphs"}) {
    if (mode == known) return mode;
  }
  misuse("there is no mode '" + mode +
         "'; choose from default, reduce-overhead, max-autotune, max-autotune-no-graphs");
}

namespace {

void bind_slots(nb::module_& m) {
  nb::class_<Slot>(m, "Slot", "An input, output or state of a model.")
      .def_ro("name", &Slot::name, "The name in the model.")
      .def_prop_ro(
          "dtype", [](const Slot& s) { return std::string(name_of(s.dtype)); },
          "The name of the element type, such as 'float32', 'bfloat16' or 'string'.")
      .def_ro("shape", &Slot::shape,
              nb::for_getter(nb::sig("def shape(self) -> tuple[int | str, ...]")),
              "The dims, in elements. One that depends on the inputs of a run is an expression, "
              "such as 'batch'.")
      .def_prop_ro(
          "image",
          [](const Slot& s) -> nb::object {
            if (s.image.empty()) return nb::none();
            return nb::cast(s.image);
          },
          nb::sig("def image(self) -> str | None"),
          "The format of an image, such as 'rgba8'; None if it is not an image.")
      .def_ro("optional", &Slot::optional,
              "Whether runs may leave the input out: the model gives it a value.")
      .def("__repr__", [](const Slot& s) {
        return "<reprise.Slot '" + s.name + "' " + std::string(name_of(s.dtype)) + " " +
               nb::str(s.shape).c_str() + ">";
      });
}

}  // namespace

void bind_packages(nb::module_& m) {
  bind_slots(m);
  nb::class_<Package>(m, "Package", nb::dynamic_attr(), "A compiled model.")
      .def(nb::init<const Package&>(), nb::arg("other"))
      .def_static("_open", open_package, nb::arg("path"))
      .def_static("_from_bytes", package_of_bytes, nb::arg("data"))
      .def(
          "_save",
          [](const Package& p, const std::string& path) {
            check(package::write(*p.package, path));
          },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro(
          "inputs", [](const Package& p) { return inputs_of(p.package->io); },
          nb::sig("def inputs(self) -> list[Slot]"), "The inputs, in the model's order.")
      .def_prop_ro(
          "outputs", [](const Package& p) { return outputs_of(p.package->io); },
          nb::sig("def outputs(self) -> list[Slot]"), "The outputs, in the model's order.")
      .def_prop_ro(
          "states", [](const Package& p) { return states_of(p.package->io); },
          nb::sig("def states(self) -> list[Slot]"),
          "The tensors that sessions keep from run to run, in the model's order.")
      .def("initial_states", initial_states,
           nb::sig("def initial_states(self) -> dict[str, typing.Any]"),
           "The values with which states begin, as NumPy arrays by name. Those of a file of\n"
           "Session.save_states() are the saved values.")
      .def_prop_ro(
          "name", [](const Package& p) { return p.package->model_name; },
          "The name of the model's graph.")
      .def_prop_ro(
          "metadata", metadata_of, nb::sig("def metadata(self) -> dict[str, str]"),
          "The properties that the model file had for applications, such as names of classes.")
      .def_prop_ro(
          "variants",
          [](const Package& p) {
            std::vector<std::string> names;
            for (const package::Variant& v : p.package->variants) names.push_back(v.name);
            return names;
          },
          "The kinds of devices that it has kernels for, in order of preference. Every\n"
          "package also runs on the host.")
      .def_prop_ro(
          "notes", [](const Package& p) { return p.package->explanation.notes; },
          "What the importer assumed or found odd in the model.")
      .def_rw(
          "mode", &Package::mode,
          "The mode of sessions that name none: 'default', 'reduce-overhead', 'max-autotune' or\n"
          "'max-autotune-no-graphs'.")
      .def("_explain", explain, nb::arg("device") = nb::none(),
           nb::sig(
               "def _explain(self, device: str | Device | None = None) -> dict[str, typing.Any]"))
      .def("__repr__", repr);
}

}  // namespace reprise::python
