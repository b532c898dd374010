// What every entry point begins with.
#pragma once

#include <mutex>
#include <new>
#include <system_error>

#include "tests/cuda_standin/driver/driver.h"

#define REPRISE_STANDIN_API extern "C" __attribute__((visibility("default"))) CUresult

namespace reprise::standin {

using namespace cuda;

/// What a call needs before it does anything.
enum class Needs : unsigned char { Nothing, Init, Context };

/// A call in progress, with the driver's mutex held.
struct Call {
  Driver& d;
  Symbol symbol;
  std::unique_lock<std::mutex>& lock;
  std::shared_ptr<Context> context;  // Needs::Context

  /// A live object of the current context; null after noting the misuse.
  template <typename T>
  std::shared_ptr<T> find(typename T::Handle handle) {
    auto object = d.handles.find<T>(handle);
    if (object == nullptr) {
      misuse(d.handles.problem(handle, T::kKind));
    } else if (context != nullptr && T::kKind != Kind::Context && object->context != context->id) {
      misuse(object->name() + " belongs to another context");
      object = nullptr;
    }
    return object;
  }
  void misuse(const std::string& text) { d.misuse(std::string(symbol_name(symbol)) + ": " + text); }
  template <typename T>
  typename T::Handle add(const std::shared_ptr<T>& object) {
    object->context = context->id;
    return d.handles.add(object);
  }
  /// The stream of a handle; null and the two special ones stand for the context's default one.
  std::shared_ptr<Stream> stream(CUstream handle) {
    if (reinterpret_cast<uintptr_t>(handle) > CU_STREAM_PER_THREAD) return find<Stream>(handle);
    if (context->default_stream == nullptr) context->default_stream = std::make_shared<Stream>();
    return context->default_stream;
  }
  /// Every stream of the context.
  std::vector<std::shared_ptr<Stream>> streams() const;
  /// Waits, without the lock, for all streams of the context.
  void wait_for_all();
  /// What a call returns that has waited.
  CUresult outcome() const { return static_cast<CUresult>(context->fault.load()); }
};

/// Finds the current context; its fault, if there was one, is the call's result.
CUresult enter_context(Call& call);

template <typename F>
CUresult enter(Symbol symbol, Needs needs, const F& body) {
  try {
    Driver& d = Driver::get();
    std::unique_lock lock(d.mutex);
    Call call{d, symbol, lock, nullptr};
    if (const CUresult injected = d.begin_call(symbol); injected != CUDA_SUCCESS) return injected;
    if (needs != Needs::Nothing && !d.initialised) {
      call.misuse("called before cuInit");
      return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (needs == Needs::Context) {
      if (const CUresult error = enter_context(call); error != CUDA_SUCCESS) return error;
    }
    return body(call);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error&) {  // no thread for a stream
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace reprise::standin
