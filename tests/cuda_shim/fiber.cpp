#include "tests/cuda_shim/fiber.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__)
#define REPRISE_FIBER_SWITCH 1
#else
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(REPRISE_FIBER_SWITCH)
// Saves what a callee must keep on the current stack, stores the stack pointer in *from, and goes
// on where `to` was saved.
extern "C" void reprise_fiber_switch(void** from, void* to);
// Where a fresh stack begins: calls the function with the argument that its first frame holds.
extern "C" void reprise_fiber_begin();
#if defined(__x86_64__)
asm(R"(
.text
.hidden reprise_fiber_switch
.globl reprise_fiber_switch
.type reprise_fiber_switch, @function
reprise_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size reprise_fiber_switch, . - reprise_fiber_switch
.hidden reprise_fiber_begin
.globl reprise_fiber_begin
.type reprise_fiber_begin, @function
reprise_fiber_begin:
  movq %r12, %rdi
  jmp *%r13
.size reprise_fiber_begin, . - reprise_fiber_begin
)");
#else
asm(R"(
.text
.hidden reprise_fiber_switch
.globl reprise_fiber_switch
.type reprise_fiber_switch, %function
reprise_fiber_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size reprise_fiber_switch, . - reprise_fiber_switch
.hidden reprise_fiber_begin
.globl reprise_fiber_begin
.type reprise_fiber_begin, %function
reprise_fiber_begin:
  mov x0, x19
  br x20
.size reprise_fiber_begin, . - reprise_fiber_begin
)");
#endif
#endif

namespace reprise::test {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

/// Stacks of one size would meet in few sets of the cache; each starts at another place.
size_t next_colour() {
  static std::atomic<size_t> count{0};
  return count.fetch_add(1, std::memory_order_relaxed) % 61 * 192;
}

}  // namespace

struct Fiber::Machine {
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  size_t colour = next_colour();
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  const void* caller_bottom = nullptr;  // AddressSanitizer: the thread's stack
  size_t caller_bytes = 0;
  void* kept = nullptr;         // AddressSanitizer's record of this fiber
  void* kept_caller = nullptr;  // and of its caller
#if defined(__SANITIZE_THREAD__)
  void* tsan = __tsan_create_fiber(0);
  void* tsan_caller = nullptr;
#endif
#if defined(REPRISE_FIBER_SWITCH)
  void* here = nullptr;
  void* caller = nullptr;
#else
  ucontext_t here{}, caller{};
#endif

  static void run(void* machine) {
    auto* m = static_cast<Machine*>(machine);
    m->entry(m->argument);
    std::abort();  // entries end with finish()
  }
#if !defined(REPRISE_FIBER_SWITCH)
  static Machine*& starting() {
    static thread_local Machine* machine = nullptr;
    return machine;
  }
  static void begin() {
    run(starting());
  }
#endif
  void prepare();
  void to_fiber();
  void to_caller();
};

void Fiber::Machine::prepare() {
  std::byte* const end = stack.get() + kStackBytes - colour;
#if defined(REPRISE_FIBER_SWITCH)
  const auto top = reinterpret_cast<uintptr_t>(end) & ~uintptr_t{15};
#if defined(__x86_64__)
  auto* frame = reinterpret_cast<uint64_t*>(top) - 8;  // six registers, the entry, no caller
  std::memset(frame, 0, 64);
  frame[2] = reinterpret_cast<uint64_t>(&run);  // r13
  frame[3] = reinterpret_cast<uint64_t>(this);  // r12
  frame[6] = reinterpret_cast<uint64_t>(&reprise_fiber_begin);
#else
  auto* frame = reinterpret_cast<uint64_t*>(top) - 20;
  std::memset(frame, 0, 160);
  frame[0] = reinterpret_cast<uint64_t>(this);  // x19
  frame[1] = reinterpret_cast<uint64_t>(&run);  // x20
  frame[11] = reinterpret_cast<uint64_t>(&reprise_fiber_begin);
#endif
  here = frame;
#else
  getcontext(&here);
  here.uc_stack.ss_sp = stack.get();
  here.uc_stack.ss_size = static_cast<size_t>(end - stack.get());
  here.uc_link = nullptr;
  makecontext(&here, &begin, 0);
#endif
}

void Fiber::Machine::to_fiber() {
#if defined(REPRISE_FIBER_SWITCH)
  reprise_fiber_switch(&caller, here);
#else
  starting() = this;
  swapcontext(&caller, &here);
#endif
}

void Fiber::Machine::to_caller() {
#if defined(REPRISE_FIBER_SWITCH)
  reprise_fiber_switch(&here, caller);
#else
  swapcontext(&here, &caller);
#endif
}

Fiber::Fiber() : m_(std::make_unique<Machine>()) {}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(m_->tsan);
#endif
}

void Fiber::start(void (*entry)(void*), void* argument) {
  m_->entry = entry;
  m_->argument = argument;
  m_->kept = nullptr;
  m_->prepare();
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&m_->kept_caller, m_->stack.get(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  m_->tsan_caller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(m_->tsan, 0);
#endif
  m_->to_fiber();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(m_->kept_caller, nullptr, nullptr);
#endif
}

std::span<const std::byte> Fiber::stack() const {
  return {m_->stack.get(), kStackBytes};
}

void Fiber::started() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &m_->caller_bottom, &m_->caller_bytes);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&m_->kept, m_->caller_bottom, m_->caller_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(m_->tsan_caller, 0);
#endif
  m_->to_caller();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(m_->kept, &m_->caller_bottom, &m_->caller_bytes);
#endif
}

void Fiber::finish() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, m_->caller_bottom, m_->caller_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(m_->tsan_caller, 0);
#endif
  m_->to_caller();
  std::abort();
}

}  // namespace reprise::test
