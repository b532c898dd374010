#include "codegen/nvrtc/images.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "codegen/emit/cuda/cuda.h"
#include "codegen/nvrtc/cache.h"
#include "codegen/options/progress.h"
#include "runtime/base/cuda_entry.h"
#include "runtime/plan/block_layout.h"
#include "runtime/platform/parallel.h"

namespace reprise::nvrtc {
namespace {

/// A text to compile for an architecture, and the kernels that have it.
struct Job {
  CudaArch arch;
  std::vector<plan::KernelCode*> kernels;
  Status status;
};

/// Checks that NVRTC accepts a parameter block of this size, as it is passed by value.
Status fits_parameters(const plan::KernelCode& k, const Library& library) {
  const uint32_t bytes = plan::BlockLayout::size(k.n_buffers, k.n_scalars, k.views.size());
  if (bytes <= library.most_parameters()) return {};
  return unsupported("kernel '" + k.name + "' has " + std::to_string(k.n_buffers) +
                     " tensors and " + std::to_string(bytes) + " bytes of parameters; NVRTC " +
                     library.version() + " takes " + std::to_string(library.most_parameters()) +
                     ": split the node in the model, use NVRTC 12.1 or later (32764 bytes, some "
                     "4,000 tensors), or compile for Vulkan");
}

/// The architectures of the CUDA variants.
Result<std::vector<CudaArch>> archs_of(const std::vector<package::Variant>& variants) {
  std::vector<CudaArch> archs;
  for (const package::Variant& v : variants) {
    if (v.predicate.api != Api::Cuda) continue;
    const auto arch = CudaArch::parse(v.predicate.cuda_arch);
    if (!arch) return internal_error("variant " + v.name + " has no architecture");
    archs.push_back(*arch);
  }
  return archs;
}

/// The kernels of a variant, and of its bodies.
std::vector<plan::KernelCode*> kernels_of(package::Variant& v) {
  std::vector<plan::KernelCode*> out;
  package::for_each_plan(v, [&](package::CompiledPlan& p) {
    for (plan::KernelCode& k : p.plan.kernels) out.push_back(&k);
  });
  return out;
}

Result<std::vector<Job>> collect_jobs(std::vector<package::Variant>& variants,
                                      const std::vector<CudaArch>& archs, const Library& library) {
  std::vector<Job> jobs;
  std::map<std::pair<std::string, std::string_view>, size_t> by_text;
  size_t cuda_variants = 0;
  for (package::Variant& v : variants) {
    if (v.predicate.api != Api::Cuda) continue;
    const CudaArch arch = archs[cuda_variants++];
    for (plan::KernelCode* k : kernels_of(v)) {
      RP_TRY(fits_parameters(*k, library));
      const auto [at, is_new] = by_text.try_emplace({v.predicate.cuda_arch, k->cuda}, jobs.size());
      if (is_new) jobs.push_back({arch, {}, {}});
      jobs[at->second].kernels.push_back(k);
    }
  }
  return jobs;
}

void drop_texts(std::vector<package::Variant>& variants) {
  for (package::Variant& v : variants) {
    if (v.predicate.api != Api::Cuda) continue;
    for (plan::KernelCode* k : kernels_of(v)) k->cuda.clear();
  }
}

class Worker {
 public:
  Worker(const Library& library, const CompileOptions& options, size_t jobs)
      : library_(library),
        options_(options),
        cache_(options.cuda_cache_dir, options.cuda_cache_bytes,
               [this](const std::string& message) { log(message); }),
        prelude_(emit::cuda_prelude()),
        jobs_(jobs) {}

  /// After a failure, only jobs before it begin. So the first failure is reported, whatever the
  /// number of threads.
  void run(std::vector<Job>& jobs, size_t i) {
    if (i > failed_ || cancelled_) return;
    run(jobs[i]);
    size_t failed = failed_;
    while (!jobs[i].status.ok() && i < failed && !failed_.compare_exchange_weak(failed, i)) {
    }
  }

  size_t cached() const { return cached_; }
  void finish() const {
    if (cached_ < jobs_ || options_.keep_source) cache_.bound();
  }

 private:
  void run(Job& job) {
    const plan::KernelCode& first = *job.kernels[0];
    const std::string text = prelude_ + first.cuda;
    const std::string key = ImageCache::key(text, options_for(job.arch), library_.version());
    std::optional<Image> image = cache_.find(key);
    cached_ += image.has_value() ? 1 : 0;
    if (!image) {
      Result<Image> made = compile_text(library_, text, first.name, job.arch);
      if (!made.ok()) {
        job.status = made.status();
        return;
      }
      image = std::move(*made);
      if (!image->warnings.empty()) {
        log("kernel '" + first.name + "' for " + job.arch.str() + ": NVRTC " + library_.version() +
            " warns:\n" + image->warnings);
      }
      cache_.put(key, *image);
    }
    if (options_.keep_source) cache_.put_source(*image, first.cuda);
    for (plan::KernelCode* k : job.kernels) {
      k->image = image->bytes;
      k->usage = image->usage;
      k->early = k->early && CudaArch::begins_early(job.arch.number);
      // The compiler counts only what a kernel declares.
      if (k->usage.registers != 0) k->usage.shared_bytes += dynamic_shared_bytes(k->shared_bytes);
    }
    const std::lock_guard lock(mutex_);
    ++done_;
    if (cancelled_) return;
    job.status = report_progress(options_, "kernels", done_, jobs_);
    cancelled_ = !job.status.ok();
  }

  void log(const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (options_.log) options_.log(message);
  }

  const Library& library_;
  const CompileOptions& options_;
  ImageCache cache_;
  std::string prelude_;
  size_t jobs_;
  std::atomic<size_t> cached_ = 0;
  std::atomic<size_t> failed_ = SIZE_MAX;  // the first job that failed
  std::atomic<bool> cancelled_ = false;    // by the caller
  std::mutex mutex_;                       // serialises callbacks
  size_t done_ = 0;
};

}  // namespace

Status compile_images(std::vector<package::Variant>& variants, const CompileOptions& options,
                      ImageReport& report) {
  RP_ASSIGN(const std::vector<CudaArch> archs, archs_of(variants));
  if (archs.empty()) return {};
  RP_ASSIGN(const std::shared_ptr<const Library> library,
            Library::open(options.nvrtc, {archs, options.cuda_driver}));
  const std::string caveat = library->caveat(options.cuda_driver);
  if (!caveat.empty() && options.log) options.log(caveat);
  RP_ASSIGN(std::vector<Job> jobs, collect_jobs(variants, archs, *library));
  Worker worker(*library, options, jobs.size());
  const Status ended = in_parallel(jobs.size(), options.threads, "CUDA kernels were compiled",
                                   [&](size_t i) { worker.run(jobs, i); });
  worker.finish();  // images that were compiled before a failure stay in the cache
  RP_TRY(ended);
  for (const Job& job : jobs) RP_TRY(job.status);
  if (!options.keep_source) drop_texts(variants);
  report.nvrtc = library->version();
  report.images = jobs.size();
  report.cached = worker.cached();
  return {};
}

Result<std::string> ptx_of(const Library& library, const plan::KernelCode& kernel,
                           const CudaArch& arch) {
  const std::string text = emit::cuda_prelude() + kernel.cuda;
  RP_ASSIGN(const Image image, compile_text(library, text, kernel.name, arch));
  return std::string(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
}

}  // namespace reprise::nvrtc
