#include "python/native/errors.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace reprise::python {
namespace {

const char* class_of(Code code) {
  switch (code) {
    case Code::Usage:
      return "UsageError";
    case Code::InvalidModel:
      return "InvalidModel";
    case Code::InvalidInput:
      return "InvalidInput";
    case Code::Unsupported:
      return "Unsupported";
    case Code::Io:
      return "FileError";
    case Code::Device:
      return "DeviceError";
    case Code::OutOfMemory:
      return "OutOfMemory";
    case Code::Timeout:
      return "Timeout";
    case Code::DeviceLost:
      return "DeviceLost";
    case Code::Cancelled:
      return "Cancelled";
    case Code::CorruptPackage:
      return "CorruptPackage";
    case Code::IncompatiblePackage:
      return "IncompatiblePackage";
    case Code::Busy:
      return "UsageError";
    case Code::Ok:
    case Code::Internal:
      return "InternalError";
  }
  return "InternalError";
}

void raise(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const StatusError& e) {
    const nb::object kind =
        nb::module_::import_("reprise.errors").attr(class_of(e.status().code()));
    PyErr_SetString(kind.ptr(), e.what());
  }
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator(raise);
}

}  // namespace reprise::python
