#include "core/ops/cuda/emulated_gpu/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "core/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
// The address sanitizer must know which stack is in use. Without it, these do nothing.
static void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
static void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
static void __asan_unpoison_memory_region(const void*, size_t) {}
#endif

// Saves the callee-saved registers on the current stack, stores the stack pointer to *from, and
// resumes the stack `to`.
extern "C" void dpipe_switch_stack(void** from, void* to);
asm(R"(
  .text
  .hidden dpipe_switch_stack
  .globl dpipe_switch_stack
  .type dpipe_switch_stack, @function
dpipe_switch_stack:
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
  ret
  .size dpipe_switch_stack, .-dpipe_switch_stack
)");

namespace dpipe::ops::cuda {
namespace {

// Kernels need little stack; the sanitizers' frames are larger.
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kGuardBytes = 4 << 10;
constexpr int kSavedRegisters = 6;

thread_local Fiber* starting = nullptr;

}  // namespace

Fiber::Fiber() {
  void* const memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DPIPE_CHECK(memory != MAP_FAILED) << "no memory for the stack of a fiber";
  DPIPE_CHECK_EQ(mprotect(memory, kGuardBytes, PROT_NONE), 0);
  stack_ = static_cast<char*>(memory) + kGuardBytes;
}

Fiber::~Fiber() { munmap(static_cast<char*>(stack_) - kGuardBytes, kGuardBytes + kStackBytes); }

void Fiber::Start(void (*body)(void*), void* argument) {
  DPIPE_CHECK(done_) << "cannot start a fiber that has not ended";
  body_ = body;
  argument_ = argument;
  done_ = false;
  // Functions that were suspended when a fiber ended, or that used this memory before, never
  // returned. They left sanitizer marks between their variables.
  __asan_unpoison_memory_region(stack_, kStackBytes);
  // The layout in which dpipe_switch_stack leaves a stack: six registers, then the return address.
  // On entry to a function, the stack pointer is 8 above a multiple of 16.
  void** top = reinterpret_cast<void**>(static_cast<char*>(stack_) + kStackBytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::Main);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  own_ = top;
}

bool Fiber::Resume() {
  starting = this;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
  dpipe_switch_stack(&caller_, own_);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  return done_;
}

void Fiber::Suspend() {
  void* fake_stack = nullptr;
  // A fiber that has ended is not resumed: null lets the sanitizer free its fake stack.
  __sanitizer_start_switch_fiber(done_ ? nullptr : &fake_stack, caller_stack_, caller_stack_size_);
  dpipe_switch_stack(&own_, caller_);
  __sanitizer_finish_switch_fiber(fake_stack, &caller_stack_, &caller_stack_size_);
}

void Fiber::Main() {
  Fiber* const self = starting;
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_stack_size_);
  self->body_(self->argument_);
  self->done_ = true;
  self->Suspend();
}

}  // namespace dpipe::ops::cuda
