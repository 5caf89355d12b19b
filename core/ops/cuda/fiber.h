// Fibers: functions with stacks of their own that hand over to one another by hand, on one thread.
//
// x86-64 only, and without the system calls of ucontext: emulated kernels switch at every barrier
// and shuffle of every thread, which is millions of times a test.
#ifndef DPIPE_CORE_OPS_CUDA_FIBER_H_
#define DPIPE_CORE_OPS_CUDA_FIBER_H_

#include <cstddef>

namespace dpipe::ops::cuda {

// A stack and what runs on it. A fiber is resumed by the thread that made it, and by none of its
// own fibers.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes `body(argument)` what the next Resume begins. The fiber must not be suspended.
  void Start(void (*body)(void*), void* argument);
  // Runs until the fiber suspends itself or its body returns; true where it returned.
  bool Resume();
  // Called on the fiber: back to whoever resumed it.
  void Suspend();

 private:
  static void Main();

  void* stack_;          // its lowest byte, above a page that must not be touched
  void* own_ = nullptr;  // stack pointers of whichever of the two is not running
  void* caller_ = nullptr;
  const void* caller_stack_ = nullptr;  // for the address sanitizer
  size_t caller_stack_size_ = 0;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool done_ = true;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_FIBER_H_
