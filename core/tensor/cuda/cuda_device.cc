#include "core/tensor/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/time.h"
#include "core/tensor/cuda/partition.h"

namespace dpipe::cuda {

// Kept by every event that is told from it.
struct CudaDevice::Anchor {
  ~Anchor() { driver->DestroyEvent(event); }
  Driver* driver;
  Event event;
  Nanos time_ns;
};

namespace {

class RecordedEvent : public DeviceEvent {
 public:
  RecordedEvent(Driver* driver, Event event, std::shared_ptr<const CudaDevice::Anchor> anchor)
      : driver_(driver), event_(event), anchor_(std::move(anchor)) {}
  ~RecordedEvent() override { driver_->DestroyEvent(event_); }

  // After an error of the device nothing is under way any more; Synchronize tells it.
  bool done() const override { return driver_->Done(event_).value_or(true); }
  Nanos time_ns() const override {
    return anchor_->time_ns + driver_->ElapsedNs(anchor_->event, event_).value_or(0);
  }
  Event event() const { return event_; }

 private:
  Driver* const driver_;
  const Event event_;
  const std::shared_ptr<const CudaDevice::Anchor> anchor_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Create(Driver* driver, const Gpu& gpu,
                                                               const Context& context,
                                                               std::string name) {
  DPIPE_RETURN_IF_ERROR(driver->MakeCurrent(context));
  DPIPE_ASSIGN_OR_RETURN(const Stream stream, driver->CreateStream(context));
  const absl::StatusOr<Pool> pool = driver->CreatePool(context);
  if (!pool.ok()) {
    driver->DestroyStream(stream);
    return pool.status();
  }
  std::shared_ptr<CudaDevice> device(
      new CudaDevice(driver, gpu, context, std::move(name), stream, *pool));
  DPIPE_RETURN_IF_ERROR(device->SetAnchor());
  return device;
}

CudaDevice::CudaDevice(Driver* driver, const Gpu& gpu, const Context& context, std::string name,
                       Stream stream, Pool pool)
    : Device(DeviceKind::kCuda, std::move(name)),
      driver_(driver),
      gpu_(gpu),
      context_(context),
      stream_(stream),
      allocator_(std::make_unique<StreamOrderedAllocator>(driver, pool, stream, Device::name())),
      staging_(driver, context) {}

CudaDevice::~CudaDevice() {
  attached_.clear();
  driver_->Synchronize(stream_).IgnoreError();
  allocator_.reset();
  driver_->DestroyStream(stream_);
}

std::shared_ptr<Device> CudaDevice::Twin() const {
  auto twin = Create(driver_, gpu_, context_, name());
  DPIPE_CHECK(twin.ok()) << "a twin of " << name() << ": " << twin.status().message();
  return *std::move(twin);
}

absl::Status CudaDevice::BindThread() const { return driver_->MakeCurrent(context_); }

void CudaDevice::Keep(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (first_error_.ok()) first_error_ = status;
}

absl::Status CudaDevice::Synchronize() {
  Keep(driver_->Synchronize(stream_));
  {
    absl::MutexLock lock(&mutex_);
    if (!first_error_.ok()) {
      return absl::Status(first_error_.code(), absl::StrCat(name(), ": ", first_error_.message()));
    }
  }
  return SetAnchor();
}

// The stream is idle, so the event is reached at once. Times between events are told in floats of
// milliseconds: a fresh anchor keeps them short, and so exact.
absl::Status CudaDevice::SetAnchor() {
  DPIPE_ASSIGN_OR_RETURN(const Event event, driver_->CreateEvent(context_));
  const auto anchor = std::shared_ptr<Anchor>(new Anchor{driver_, event, 0});
  DPIPE_RETURN_IF_ERROR(driver_->Record(event, stream_));
  DPIPE_RETURN_IF_ERROR(driver_->Synchronize(event));
  anchor->time_ns = MonotonicNow();
  absl::MutexLock lock(&mutex_);
  anchor_ = anchor;
  return absl::OkStatus();
}

void CudaDevice::CopyFromHost(void* to, const void* host, int64_t size_bytes) {
  Keep(staging_.ToDevice(to, host, size_bytes, stream_));
}

void CudaDevice::CopyToHost(void* host, const void* from, int64_t size_bytes) {
  Keep(staging_.ToHost(host, from, size_bytes, stream_));
}

void CudaDevice::CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) {
  if (size_bytes == 0) return;
  if (&peer != this) WaitFor(*peer.RecordEvent());
  Keep(driver_->Copy(to, from, size_bytes, stream_));
}

void CudaDevice::FillZero(void* data, int64_t size_bytes) {
  if (size_bytes > 0) Keep(driver_->Fill(data, 0, size_bytes, stream_));
}

void CudaDevice::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                         int64_t count) {
  Keep(driver_->Convert(to, to_dtype, from, from_dtype, count, stream_));
}

void CudaDevice::Accumulate(void* sum, const void* term, int64_t count) {
  Keep(driver_->Accumulate(static_cast<float*>(sum), static_cast<const float*>(term), count,
                           stream_));
}

std::shared_ptr<DeviceEvent> CudaDevice::RecordEvent() {
  const absl::StatusOr<Event> event = driver_->CreateEvent(context_);
  DPIPE_CHECK(event.ok()) << name() << ": " << event.status().message();
  Keep(driver_->Record(*event, stream_));
  absl::MutexLock lock(&mutex_);
  return std::make_shared<RecordedEvent>(driver_, *event, anchor_);
}

void CudaDevice::WaitFor(const DeviceEvent& event) {
  Keep(driver_->Wait(stream_, static_cast<const RecordedEvent&>(event).event()));
}

void CudaDevice::GiveBack(Device& lender, void* data) {
  const absl::StatusOr<Event> event = driver_->CreateEvent(context_);
  DPIPE_CHECK(event.ok()) << name() << ": " << event.status().message();
  Keep(driver_->Record(*event, stream_));
  CudaDeviceOf(lender).allocator_->AddUse(data, *event);
}

CudaDevice& CudaDeviceOf(Device& device) {
  DPIPE_CHECK(device.kind() == DeviceKind::kCuda && !device.has_host_memory()) << device.name();
  return static_cast<CudaDevice&>(device);
}

std::string DescribeGpus(const std::vector<Gpu>& gpus) {
  return absl::StrCat("there ", gpus.size() == 1 ? "is " : "are ", gpus.size(), ": ",
                      absl::StrJoin(gpus, ", ", [](std::string* out, const Gpu& gpu) {
                        absl::StrAppend(out, DescribeGpu(gpu));
                      }));
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> CreateCudaDevices(Driver* driver, int count,
                                                                       int first) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, driver->Gpus());
  if (count < 1 || first + count > static_cast<int>(gpus.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked for ", first + count, " GPUs, but ", DescribeGpus(gpus)));
  }
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = first; i < first + count; ++i) {
    const Context context{gpus[i].index, gpus[i].multiprocessors, nullptr};
    DPIPE_ASSIGN_OR_RETURN(
        devices.emplace_back(),
        CudaDevice::Create(driver, gpus[i], context, absl::StrCat("cuda:", gpus[i].index)));
  }
  return devices;
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> CreateVirtualCudaDevices(Driver* driver,
                                                                              int count) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, driver->Gpus());
  const Gpu& gpu = gpus[0];
  DPIPE_ASSIGN_OR_RETURN(const int share, MultiprocessorsOfShare(driver, gpu, count));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Context> contexts,
                         driver->Divide(gpu.index, count, share));
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    DPIPE_ASSIGN_OR_RETURN(
        devices.emplace_back(),
        CudaDevice::Create(driver, gpu, contexts[i],
                           absl::StrCat("cuda:", gpu.index, "/", i, " of ", count)));
  }
  return devices;
}

}  // namespace dpipe::cuda
