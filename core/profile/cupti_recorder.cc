#include "core/profile/cupti_recorder.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/tensor/device_work.h"

namespace dpipe {
namespace {

constexpr CUpti_ExternalCorrelationKind kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr size_t kBufferBytes = size_t{8} << 20;  // about 30,000 records
constexpr size_t kBufferAlignment = 8;

// CUPTI maps external ids to activities only if calls of the driver and the runtime are recorded.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

std::string Demangled(const char* name) {
  if (name == nullptr) return "";
  int status = 0;
  char* const demangled = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 ? demangled : name;
  std::free(demangled);
  // The return type carries no information.
  if (text.rfind("void ", 0) == 0) text.erase(0, 5);
  return text;
}

// An operation in progress on the calling thread.
struct OpenWork {
  int id = 0;
  double flops = 0, bytes = 0;
};
thread_local std::vector<OpenWork> open_works;

class CuptiRecorder : public GpuRecorder, public WorkObserver {
 public:
  CuptiRecorder(const CuptiApi& api, const GpuCeilings& ceilings)
      : api_(api), ceilings_(ceilings) {}
  ~CuptiRecorder() override {
    if (is_recording_) Stop().status().IgnoreError();
  }

  absl::Status Start();
  absl::StatusOr<GpuRecording> Stop() override;

  void Begin(absl::string_view operation, absl::string_view detail) override;
  void Count(double flops, double bytes) override;
  void End() override;

 private:
  // CUPTI's callbacks take no user pointer, hence this static one.
  static CuptiRecorder* current_;
  static void CUPTIAPI RequestBuffer(uint8_t** buffer, size_t* size, size_t* max_records);
  static void CUPTIAPI TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                                  size_t valid_size);

  void Read(const CUpti_Activity& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Record>
  void Add(GpuActivity::Kind kind, std::string name, const Record& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    recording_.activities.push_back({kind, std::move(name), -1, static_cast<Nanos>(record.start),
                                     static_cast<Nanos>(record.end)});
    correlations_.push_back(record.correlationId);
  }
  int IdOf(absl::string_view operation, absl::string_view detail)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CuptiApi& api_;
  const GpuCeilings ceilings_;
  bool is_recording_ = false;
  absl::Mutex mutex_;
  GpuRecording recording_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, int> ids_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<const char*, std::string> names_ ABSL_GUARDED_BY(mutex_);
  // Maps each activity to the call that enqueued it, and calls to their operations.
  std::vector<uint32_t> correlations_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint32_t, int> operation_of_call_ ABSL_GUARDED_BY(mutex_);
};

CuptiRecorder* CuptiRecorder::current_ = nullptr;

void CuptiRecorder::RequestBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CuptiRecorder::TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                               size_t valid_size) {
  if (CuptiRecorder* const recorder = current_) {
    absl::MutexLock lock(&recorder->mutex_);
    CUpti_Activity* record = nullptr;
    while (valid_size > 0 && recorder->api_.cuptiActivityGetNextRecord(buffer, valid_size,
                                                                       &record) == CUPTI_SUCCESS) {
      recorder->Read(*record);
    }
    size_t dropped = 0;
    if (recorder->api_.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) ==
        CUPTI_SUCCESS) {
      recorder->recording_.dropped += static_cast<int64_t>(dropped);
    }
  }
  std::free(buffer);
}

void CuptiRecorder::Read(const CUpti_Activity& record) {
  const void* const address = &record;
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *static_cast<const CUpti_ActivityKernel10*>(address);
      // CUPTI keeps a name while its module is loaded, and returns one pointer per kernel.
      std::string& name = names_[kernel.name];
      if (name.empty()) name = Demangled(kernel.name);
      return Add(GpuActivity::Kind::kKernel, name, kernel);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return Add(GpuActivity::Kind::kCopy, "", *static_cast<const CUpti_ActivityMemcpy6*>(address));
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return Add(GpuActivity::Kind::kFill, "", *static_cast<const CUpti_ActivityMemset4*>(address));
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& call = *static_cast<const CUpti_ActivityExternalCorrelation*>(address);
      if (call.externalKind != kOurs) return;
      operation_of_call_[call.correlationId] = static_cast<int>(call.externalId) - 1;
      return;
    }
    default:
      return;
  }
}

int CuptiRecorder::IdOf(absl::string_view operation, absl::string_view detail) {
  auto& operations = recording_.operations;
  const auto [found, is_new] =
      ids_.emplace(std::make_pair(std::string(operation), std::string(detail)), operations.size());
  if (is_new) {
    operations.emplace_back();
    operations.back().name = std::string(operation);
    operations.back().detail = std::string(detail);
  }
  return found->second;
}

void CuptiRecorder::Begin(absl::string_view operation, absl::string_view detail) {
  int id = 0;
  {
    absl::MutexLock lock(&mutex_);
    const std::string around =
        open_works.empty() ? "" : recording_.operations[open_works.back().id].name;
    id = IdOf(operation.empty() ? around : operation, detail);
  }
  open_works.push_back({id});
  // 0 is not a valid id.
  api_.cuptiActivityPushExternalCorrelationId(kOurs, static_cast<uint64_t>(id) + 1);
}

void CuptiRecorder::Count(double flops, double bytes) {
  if (open_works.empty()) return;
  open_works.back().flops += flops;
  open_works.back().bytes += bytes;
}

void CuptiRecorder::End() {
  uint64_t last = 0;
  api_.cuptiActivityPopExternalCorrelationId(kOurs, &last);
  const OpenWork work = open_works.back();
  open_works.pop_back();
  absl::MutexLock lock(&mutex_);
  GpuOperation& operation = recording_.operations[work.id];
  ++operation.calls;
  operation.flops += work.flops;
  operation.bytes += work.bytes;
  operation.bound_ns +=
      1e9 * std::max(work.flops / ceilings_.flops_per_s(), work.bytes / ceilings_.bytes_per_s());
}

absl::Status CuptiRecorder::Start() {
  DPIPE_CHECK(current_ == nullptr) << "another GpuRecorder is active; stop it first";
  current_ = this;
  is_recording_ = true;
  DPIPE_RETURN_IF_ERROR(CuptiStatus(api_,
                                    api_.cuptiActivityRegisterCallbacks(RequestBuffer, TakeBuffer),
                                    "cuptiActivityRegisterCallbacks"));
  for (const CUpti_ActivityKind kind : kKinds) {
    DPIPE_RETURN_IF_ERROR(CuptiStatus(api_, api_.cuptiActivityEnable(kind),
                                      absl::StrCat("cuptiActivityEnable(", kind, ")")));
  }
  SetWorkObserver(this);
  return absl::OkStatus();
}

absl::StatusOr<GpuRecording> CuptiRecorder::Stop() {
  SetWorkObserver(nullptr);
  is_recording_ = false;
  const absl::Status flushed = CuptiStatus(
      api_, api_.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  for (const CUpti_ActivityKind kind : kKinds) api_.cuptiActivityDisable(kind);
  current_ = nullptr;
  DPIPE_RETURN_IF_ERROR(flushed);
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < correlations_.size(); ++i) {
    const auto found = operation_of_call_.find(correlations_[i]);
    if (found != operation_of_call_.end()) recording_.activities[i].operation = found->second;
  }
  return std::move(recording_);
}

}  // namespace

namespace internal {

absl::StatusOr<std::unique_ptr<GpuRecorder>> StartCuptiRecorder(const CuptiApi& api,
                                                                const GpuCeilings& ceilings) {
  auto recorder = std::make_unique<CuptiRecorder>(api, ceilings);
  DPIPE_RETURN_IF_ERROR(recorder->Start());
  return recorder;
}

}  // namespace internal

absl::StatusOr<std::unique_ptr<GpuRecorder>> StartGpuRecorder(const GpuCeilings& ceilings) {
  DPIPE_ASSIGN_OR_RETURN(const CuptiApi* const api, LoadCupti());
  return internal::StartCuptiRecorder(*api, ceilings);
}

}  // namespace dpipe
