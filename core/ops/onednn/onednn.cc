#include "core/ops/onednn/onednn.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/ops/product/fixed_order_product.h"
#include "oneapi/dnnl/dnnl_debug.h"

namespace dpipe::ops::onednn {
namespace {

std::atomic<Bf16Choice> bf16_choice{Bf16Choice::kByCpu};

dnnl_stream_t ThreadStream() {
  thread_local const dnnl::stream stream(CpuEngine());
  return stream.get();
}

// True if oneDNN's kernels may use all of `isa`, a set of bits.
bool Has(dnnl::cpu_isa isa) {
  static const int effective = static_cast<int>(dnnl::get_effective_cpu_isa());
  return (effective & static_cast<int>(isa)) == static_cast<int>(isa);
}

// Numbers forms in the order of first use. Forms of one layout differ if the master is read in two
// ways: a square matrix and its transpose are forms of one size.
int FormatId(const Desc& plain, const Desc& wanted) {
  static absl::Mutex mutex;
  static auto& known = *new std::vector<std::pair<Desc, Desc>>;
  absl::MutexLock lock(&mutex);
  const auto it = std::find(known.begin(), known.end(), std::make_pair(plain, wanted));
  const int index = static_cast<int>(it - known.begin());
  if (it == known.end()) known.emplace_back(plain, wanted);
  return Weight::kFirstBackendFormat + index;
}

}  // namespace

const dnnl::engine& CpuEngine() {
  static const auto& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type ToDataType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kBf16:
      return dnnl::memory::data_type::bf16;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
  }
  return dnnl::memory::data_type::undef;
}

bool NativeBf16() {
  static const bool is_faster = Has(dnnl::cpu_isa::avx512_core_amx) ||
                                (Has(dnnl::cpu_isa::avx512_core_bf16) && __builtin_cpu_is("amd"));
  const Bf16Choice choice = bf16_choice.load(std::memory_order_relaxed);
  return choice == Bf16Choice::kByCpu ? is_faster : choice == Bf16Choice::kNative;
}

void SetBf16Choice(Bf16Choice choice) { bf16_choice = choice; }

bool NeedsFixedOrder() { return !Has(dnnl::cpu_isa::avx512_core) && cpu::HasFixedOrderProduct(); }

int MaxThreads() { return omp_get_max_threads(); }

absl::Status ToStatus(dnnl_status_t code, absl::string_view what) {
  if (code == dnnl_success) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": oneDNN: ", dnnl_status2str(code));
  switch (code) {
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(message);
    case dnnl_unimplemented:
      return absl::UnimplementedError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
                  int64_t ldc) {
  return ToStatus(dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                             lda, b, ldb, beta, c, ldc),
                  "matrix product");
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Primitive::Primitive(std::string what, dnnl::primitive primitive, const Desc& scratchpad,
                     const std::vector<Argument>& arguments)
    : what_(std::move(what)),
      primitive_(std::move(primitive)),
      scratchpad_bytes_(static_cast<int64_t>(scratchpad.get_size())) {
  for (const Argument& argument : arguments) {
    memories_.push_back(dnnl::memory(argument.desc, CpuEngine(), nullptr));
    exec_arguments_.push_back({argument.index, memories_.back().get()});
  }
  if (scratchpad_bytes_ > 0) {
    memories_.push_back(dnnl::memory(scratchpad, CpuEngine(), nullptr));
    exec_arguments_.push_back({DNNL_ARG_SCRATCHPAD, memories_.back().get()});
  }
}

absl::Status Primitive::Run(const std::shared_ptr<Device>& device,
                            std::initializer_list<const void*> data) const {
  Tensor scratchpad;
  const dnnl_stream_t stream = ThreadStream();
  size_t i = 0;
  const auto set = [&](const void* pointer) {
    return dnnl_memory_set_data_handle(exec_arguments_[i++].memory, const_cast<void*>(pointer));
  };
  for (const void* pointer : data) DPIPE_RETURN_IF_ERROR(ToStatus(set(pointer), what_));
  if (scratchpad_bytes_ > 0) {
    scratchpad = Tensor::Empty(device, {(scratchpad_bytes_ + 3) / 4}, DType::kF32);
    DPIPE_RETURN_IF_ERROR(ToStatus(set(scratchpad.raw_data()), what_));
  }
  DPIPE_CHECK_EQ(i, exec_arguments_.size()) << what_;
  return ToStatus(
      dnnl_primitive_execute(primitive_.get(), stream, static_cast<int>(exec_arguments_.size()),
                             exec_arguments_.data()),
      what_);
}

WeightForm::WeightForm(const Desc& plain, const Desc& wanted)
    : is_master_(plain == wanted), size_bytes_(static_cast<int64_t>(wanted.get_size())) {
  if (is_master_) return;
  format_ = FormatId(plain, wanted);
  const dnnl::reorder::primitive_desc desc(CpuEngine(), plain, CpuEngine(), wanted,
                                           UserScratchpad());
  reorder_ = Primitive("preparing a weight", dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, wanted}});
}

absl::StatusOr<Tensor> WeightForm::Get(const Weight& w) const {
  if (is_master_) return w.master();
  return w.Prepared(format_, [this](const Tensor& master) { return Prepare(master); });
}

absl::StatusOr<Tensor> WeightForm::Prepare(const Tensor& master) const {
  Tensor form = Tensor::Empty(master.device(), {(size_bytes_ + 3) / 4}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(reorder_.Run(master.device(), {master.raw_data(), form.raw_data()}));
  return form;
}

}  // namespace dpipe::ops::onednn
