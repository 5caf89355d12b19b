// Chooses an op's implementation by the device of its tensors.
#ifndef DPIPE_CORE_OPS_SUPPORT_BACKEND_H_
#define DPIPE_CORE_OPS_SUPPORT_BACKEND_H_

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ops/cuda/launch_status.h"
#include "core/tensor/device_work.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// Returns the result of f, or OK if f returns nothing.
template <typename F>
absl::Status StatusOf(const F& f) {
  if constexpr (std::is_void_v<decltype(f())>) {
    f();
    return absl::OkStatus();
  } else {
    return f();
  }
}

// Calls host() or cuda() by the kind of `device`. Each returns a Status or nothing. The CUDA one
// only enqueues work. An error that occurs meanwhile is returned here; later errors are returned by
// the next wait for the device.
template <typename Host, typename Cuda>
absl::Status RunOn(const Device& device, absl::string_view op, const Host& host, const Cuda& cuda) {
  if (device.kind() != DeviceKind::kCuda) return StatusOf(host);
  const WorkScope scope(op);
  DPIPE_RETURN_IF_ERROR(StatusOf(cuda));
  return cuda::LaunchStatus(device, op);
}

// Calls the kernel of `op` for the kind of `device`.
//
// `Kernels` is the table of a group of ops: a struct of function pointers, of which each kind of
// device has one, the static members kReference, kCpu and kCuda. Outputs are the last parameters
// and are already allocated. Returns Unimplemented if the device's table has no such kernel.
template <typename Kernels, typename Result, typename... Params, typename... Args>
absl::Status RunKernel(const Device& device, absl::string_view op,
                       Result (*Kernels::*kernel)(Params...), const Args&... args) {
  const Kernels& kernels = device.kind() == DeviceKind::kCuda  ? Kernels::kCuda
                           : device.kind() == DeviceKind::kCpu ? Kernels::kCpu
                                                               : Kernels::kReference;
  Result (*const function)(Params...) = kernels.*kernel;
  if (function == nullptr) {
    return absl::UnimplementedError(absl::StrCat(op, " has no kernel for ", device.name()));
  }
  const auto call = [&] { return function(args...); };
  return RunOn(device, op, call, call);
}

// As RunOn above, with a reference of its own.
template <typename Reference, typename Cpu, typename Cuda>
absl::Status RunOn(const Device& device, absl::string_view op, const Reference& reference,
                   const Cpu& cpu, const Cuda& cuda) {
  const auto host = [&] {
    return device.kind() == DeviceKind::kCpu ? StatusOf(cpu) : StatusOf(reference);
  };
  return RunOn(device, op, host, cuda);
}

inline bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBf16; }

inline void CheckFloat(const Tensor& t) {
  DPIPE_CHECK(IsFloat(t.dtype())) << "an activation of " << DTypeName(t.dtype());
}

inline void CheckSameType(const Tensor& a, const Tensor& b) {
  DPIPE_CHECK(a.dtype() == b.dtype()) << DTypeName(a.dtype()) << " and " << DTypeName(b.dtype());
}

inline void CheckSameShapeAndType(const Tensor& a, const Tensor& b) {
  DPIPE_CHECK_EQ(a.shape(), b.shape());
  CheckSameType(a, b);
}

// Checks a parameter, its gradient, or a statistic.
inline void CheckFp32(const Tensor& t, const Shape& shape) {
  DPIPE_CHECK_EQ(t.shape(), shape);
  DPIPE_CHECK(t.dtype() == DType::kF32) << "fp32 expected, not " << DTypeName(t.dtype());
}

// Calls f(pointer to x's elements, pointer to y's elements, ...) with the type that all share. An
// account of the work counts each tensor as read or written once.
template <typename F, typename... Tensors>
void WithElements(const F& f, const Tensor& first, const Tensors&... others) {
  CountWork(0, static_cast<double>((first.size_bytes() + ... + others.size_bytes())));
  if (first.dtype() == DType::kF32) {
    f(first.data<float>(), others.template data<float>()...);
  } else {
    f(first.data<Bf16>(), others.template data<Bf16>()...);
  }
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_BACKEND_H_
