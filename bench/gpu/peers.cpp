#include "bench/gpu/peers.h"

#include "bench/gpu/vendor_library.h"

namespace reprise::bench::gpu {
namespace {

/// Records the version of a library, or why it is missing.
template <typename T>
void note(Peers& peers, const char* name, const std::string& version,
          Result<std::shared_ptr<const T>> opened, std::shared_ptr<const T>& to) {
  if (!opened.ok()) {
    peers.missing[name] = opened.status().message();
    return;
  }
  to = std::move(*opened);
  peers.versions[name] = version;
}

/// The peers for each operation; none for operations that no peer supports.
struct EntriesOf {
  const Case& c;
  const Tensors& values;
  const Peers& peers;

  using Entries = std::vector<Entry>;
  Entries operator()(const std::monostate&) const { return {}; }
  Entries operator()(const CopyOp&) const {
    return {{"driver copy", c.dtype,
             [context = peers.context, &v = values] { return driver_copy(context, v); }}};
  }
  Entries operator()(const ReplayOp&) const {
    return {{"stream launches", c.dtype, [context = peers.context, &v = values, &of = c] {
               return stream_launches(of, context, v);
             }}};
  }
  Entries operator()(const GemmOp& op) const {
    if (!peers.cublas) return {};
    return in_both_precisions("cublas", [lib = peers.cublas, op, &v = values](bool tf32) {
      return cublas_gemm(lib, op, v, tf32);
    });
  }
  Entries operator()(const SoftmaxOp& op) const {
    if (!peers.cudnn) return {};
    return {{"cudnn", c.dtype,
             [lib = peers.cudnn, op, &v = values] { return cudnn_softmax(lib, op, v); }}};
  }
  Entries operator()(const ConvOp& op) const {
    if (!peers.cudnn) return {};
    return in_both_precisions("cudnn", [lib = peers.cudnn, op, &v = values](bool tf32) {
      return cudnn_conv(lib, op, v, tf32);
    });
  }

 private:
  template <typename F>
  Entries in_both_precisions(const std::string& name, const F& make) const {
    Entries out{{name, c.dtype, [make] { return make(false); }}};
    // TF32 keeps as many significant bits of a factor as fp16.
    if (c.dtype == DType::F32)
      out.push_back({name + " tf32", DType::F16, [make] { return make(true); }});
    return out;
  }
};

}  // namespace

Status check_nvidia_driver() {
  void* driver = dlopen(cuda::kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  if (driver && dlsym(driver, "cuGetProcAddress_v2")) return {};
  return {Code::Unsupported, "libcuda.so.1 is not NVIDIA's driver"};
}

Peers Peers::open(const std::shared_ptr<const PeerContext>& context) {
  Peers peers;
  peers.context = context;
  const Status driver = check_nvidia_driver();
  if (!driver.ok()) {
    peers.missing = {{"cublas", driver.message()}, {"cudnn", driver.message()}};
    return peers;
  }
  std::string version;
  auto cublas = open_cublas(context, version);
  note(peers, "cublas", version, std::move(cublas), peers.cublas);
  auto cudnn = open_cudnn(context, version);
  note(peers, "cudnn", version, std::move(cudnn), peers.cudnn);
  return peers;
}

std::vector<Entry> peers_of(const Case& c, const Tensors& values, const Peers& peers) {
  if (!peers.context) return {};
  return std::visit(EntriesOf{c, values, peers}, c.peer);
}

}  // namespace reprise::bench::gpu
