#include "bench/gpu/cudnn_api.h"
#include "bench/gpu/peers.h"
#include "bench/gpu/vendor_library.h"

namespace reprise::bench::gpu {

using cuda::Scope;

class Cudnn {
 public:
  explicit Cudnn(std::shared_ptr<const PeerContext> context) : context_(std::move(context)) {}
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  ~Cudnn() {
    if (!handle_) return;
    const Scope scope(*context_->driver);
    cudnnDestroy(handle_);
  }

  Status load(std::string& version) {
    RP_ASSIGN(void* library, open_vendor_library({"libcudnn.so.9"}));
#define REPRISE_RESOLVE(name, parameters) RP_TRY(resolve(library, #name, name));
    REPRISE_CUDNN_SYMBOLS(REPRISE_RESOLVE)
#undef REPRISE_RESOLVE
    size_t (*version_of)() = nullptr;
    RP_TRY(resolve(library, "cudnnGetVersion", version_of));
    RP_CUDA_SCOPE(*context_->driver);
    RP_TRY(vendor_check(cudnnCreate(&handle_), "cudnnCreate"));
    RP_TRY(vendor_check(cudnnSetStream(handle_, context_->stream()), "cudnnSetStream"));
    version = std::to_string(version_of());
    return {};
  }
  cudnnHandle_t handle() const {
    return handle_;
  }
  const std::shared_ptr<const PeerContext>& context() const {
    return context_;
  }

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes no parentheses.
#define REPRISE_MEMBER(name, parameters) cudnnStatus(*name) parameters = nullptr;
  REPRISE_CUDNN_SYMBOLS(REPRISE_MEMBER)
#undef REPRISE_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)

 private:
  std::shared_ptr<const PeerContext> context_;
  cudnnHandle_t handle_ = nullptr;
};

namespace {

constexpr float kOne = 1, kZero = 0;

int cudnn_type_of(DType t) {
  return t == DType::F16 ? kCudnnHalf : t == DType::BF16 ? kCudnnBfloat16 : kCudnnFloat;
}

/// A peer that has descriptors of its input and output.
class CudnnPeer : public StreamPeer {
 public:
  CudnnPeer(std::shared_ptr<const Cudnn> cudnn, DType dtype)
      : StreamPeer(cudnn->context()), cudnn_(std::move(cudnn)), dtype_(dtype) {}
  ~CudnnPeer() override {
    if (x_) cudnn_->cudnnDestroyTensorDescriptor(x_);
    if (y_) cudnn_->cudnnDestroyTensorDescriptor(y_);
  }

 protected:
  Status describe(cudnnTensorDescriptor_t& tensor, const std::vector<int64_t>& dims) {
    RP_TRY(
        vendor_check(cudnn_->cudnnCreateTensorDescriptor(&tensor), "cudnnCreateTensorDescriptor"));
    const auto d = [&](size_t i) { return static_cast<int>(dims[i]); };
    return vendor_check(cudnn_->cudnnSetTensor4dDescriptor(
                            tensor, kCudnnNchw, cudnn_type_of(dtype_), d(0), d(1), d(2), d(3)),
                        "cudnnSetTensor4dDescriptor");
  }

  std::shared_ptr<const Cudnn> cudnn_;
  DType dtype_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr;
};

class Softmax final : public CudnnPeer {
 public:
  using CudnnPeer::CudnnPeer;
  Status prepare(const SoftmaxOp& op, const Tensors& values) {
    RP_TRY(add_input(values[0]));
    RP_TRY(add_output(dtype_, {op.rows, op.columns}));
    RP_TRY(describe(x_, {op.rows, op.columns, 1, 1}));
    return describe(y_, {op.rows, op.columns, 1, 1});
  }

 protected:
  Status enqueue() override {
    return vendor_check(cudnn_->cudnnSoftmaxForward(cudnn_->handle(), kCudnnSoftmaxAccurate,
                                                    kCudnnSoftmaxModeInstance, &kOne, x_, input(0),
                                                    &kZero, y_, output_memory()),
                        "cudnnSoftmaxForward");
  }
};

class Conv final : public CudnnPeer {
 public:
  using CudnnPeer::CudnnPeer;
  ~Conv() override {
    if (w_) cudnn_->cudnnDestroyFilterDescriptor(w_);
    if (conv_) cudnn_->cudnnDestroyConvolutionDescriptor(conv_);
  }
  Status prepare(const ConvOp& op, const Tensors& values, bool tf32) {
    RP_TRY(add_input(values[0]));
    RP_TRY(add_input(values[1]));
    const std::vector<int64_t> out{1, op.filters, op.out(), op.out()};
    RP_TRY(add_output(dtype_, out));
    RP_TRY(describe(x_, values[0].dims()));
    RP_TRY(describe(y_, out));
    RP_TRY(describe_convolution(op, tf32));
    return choose();
  }

 protected:
  Status enqueue() override {
    return vendor_check(cudnn_->cudnnConvolutionForward(
                            cudnn_->handle(), &kOne, x_, input(0), w_, input(1), conv_, algorithm_,
                            pointer(workspace_), workspace_bytes_, &kZero, y_, output_memory()),
                        "cudnnConvolutionForward");
  }

 private:
  Status describe_convolution(const ConvOp& op, bool tf32) {
    const auto i = [](int64_t v) { return static_cast<int>(v); };
    RP_TRY(vendor_check(cudnn_->cudnnCreateFilterDescriptor(&w_), "cudnnCreateFilterDescriptor"));
    RP_TRY(vendor_check(
        cudnn_->cudnnSetFilter4dDescriptor(w_, cudnn_type_of(dtype_), kCudnnNchw, i(op.filters),
                                           i(op.channels), i(op.kernel), i(op.kernel)),
        "cudnnSetFilter4dDescriptor"));
    RP_TRY(vendor_check(cudnn_->cudnnCreateConvolutionDescriptor(&conv_),
                        "cudnnCreateConvolutionDescriptor"));
    RP_TRY(vendor_check(cudnn_->cudnnSetConvolution2dDescriptor(
                            conv_, i(op.pad), i(op.pad), i(op.stride), i(op.stride), 1, 1,
                            kCudnnCrossCorrelation, kCudnnFloat),
                        "cudnnSetConvolution2dDescriptor"));
    const int exact = dtype_ == DType::F32 ? kCudnnFmaMath : kCudnnTensorOpMath;
    math_ = tf32 ? kCudnnDefaultMath : exact;
    return vendor_check(cudnn_->cudnnSetConvolutionMathType(conv_, math_),
                        "cudnnSetConvolutionMathType");
  }
  /// Chooses the fastest algorithm by cuDNN's measurements.
  Status choose() {
    RP_CUDA_SCOPE(*context().driver);
    CudnnForwardPerf results[8] = {};
    int found = 0;
    RP_TRY(vendor_check(cudnn_->cudnnFindConvolutionForwardAlgorithm(cudnn_->handle(), x_, w_,
                                                                     conv_, y_, 8, &found, results),
                        "cudnnFindConvolutionForwardAlgorithm"));
    for (int i = 0; i < found; ++i) {
      const CudnnForwardPerf& r = results[i];
      const bool allowed = dtype_ != DType::F32 || math_ != kCudnnFmaMath || r.math_type == math_;
      if (r.status != 0 || !allowed) continue;
      algorithm_ = r.algorithm;
      workspace_bytes_ = r.memory;
      RP_TRY(vendor_check(cudnn_->cudnnSetConvolutionMathType(conv_, r.math_type),
                          "cudnnSetConvolutionMathType"));
      RP_ASSIGN(workspace_, context().allocate(workspace_bytes_));
      return {};
    }
    return {Code::Unsupported, "cuDNN has no algorithm for this convolution"};
  }

  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  int algorithm_ = 0, math_ = 0;
  size_t workspace_bytes_ = 0;
  cuda::OwnedMemory workspace_;
};

}  // namespace

Result<std::shared_ptr<const Cudnn>> open_cudnn(std::shared_ptr<const PeerContext> context,
                                                std::string& version) {
  auto cudnn = std::make_shared<Cudnn>(std::move(context));
  RP_TRY(cudnn->load(version));
  return std::shared_ptr<const Cudnn>(std::move(cudnn));
}

Result<ContenderPtr> cudnn_softmax(std::shared_ptr<const Cudnn> cudnn, const SoftmaxOp& op,
                                   const Tensors& values) {
  auto peer = std::make_unique<Softmax>(std::move(cudnn), values[0].dtype());
  RP_TRY(peer->prepare(op, values));
  return ContenderPtr(std::move(peer));
}

Result<ContenderPtr> cudnn_conv(std::shared_ptr<const Cudnn> cudnn, const ConvOp& op,
                                const Tensors& values, bool tf32) {
  auto peer = std::make_unique<Conv>(std::move(cudnn), values[0].dtype());
  RP_TRY(peer->prepare(op, values, tf32));
  return ContenderPtr(std::move(peer));
}

}  // namespace reprise::bench::gpu
