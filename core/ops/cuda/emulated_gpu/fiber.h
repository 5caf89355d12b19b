// Fibers: functions with separate stacks that switch explicitly, on one thread.
//
// For x86-64 only, and without the system calls of ucontext: emulated kernels switch at every
// barrier and shuffle of every thread, millions of times per test.
#ifndef DPIPE_CORE_OPS_CUDA_EMULATED_GPU_FIBER_H_
#define DPIPE_CORE_OPS_CUDA_EMULATED_GPU_FIBER_H_

#include <cstddef>

namespace dpipe::ops::cuda {

// A stack and the function that runs on it. Only the thread that created a fiber may resume it, and
// none of its own fibers.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Prepares `body(argument)` for the next Resume. The fiber must not be suspended.
  void Start(void (*body)(void*), void* argument);
  // Runs until the fiber suspends itself or its body returns. Returns true in the second case.
  bool Resume();
  // Returns to the caller of Resume. Called on the fiber.
  void Suspend();

 private:
  static void Main();

  void* stack_;          // its lowest byte, above a page that must not be touched
  void* own_ = nullptr;  // saved stack pointers of the fiber and its caller
  void* caller_ = nullptr;
  const void* caller_stack_ = nullptr;  // for the address sanitizer
  size_t caller_stack_size_ = 0;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool done_ = true;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_EMULATED_GPU_FIBER_H_
