#include "core/tensor/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/phases.h"
#include "core/base/time.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/device_work.h"

namespace dpipe::cuda {

// Shared by all events whose time is computed from it.
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
  ~RecordedEvent() override {
    if (event_ != nullptr) driver_->DestroyEvent(event_);
  }

  // After an error of the device no work is in flight; Synchronize reports the error.
  bool done() const override { return event_ == nullptr || driver_->Done(event_).value_or(true); }
  Nanos time_ns() const override {
    if (event_ == nullptr) return anchor_->time_ns;
    return anchor_->time_ns + driver_->ElapsedNs(anchor_->event, event_).value_or(0);
  }
  // Null if an error of the device prevented creating the event; then there is nothing to wait for.
  Event event() const { return event_; }

 private:
  Driver* const driver_;
  const Event event_;
  const std::shared_ptr<const CudaDevice::Anchor> anchor_;
};

// A graph together with the memory that it uses, a room of the allocator.
class RecordedGraph : public DeviceGraph {
 public:
  RecordedGraph(CudaDevice* device, StreamOrderedAllocator* allocator, void* room, Graph graph)
      : device_(device), allocator_(allocator), room_(room), graph_(graph) {}
  ~RecordedGraph() override {
    device_->driver().Synchronize(device_->stream()).IgnoreError();
    device_->driver().DestroyGraph(graph_);
    allocator_->DropRoom(room_);
  }

  void Launch() override { device_->Keep(device_->driver().Launch(graph_, device_->stream())); }

 private:
  CudaDevice* const device_;
  StreamOrderedAllocator* const allocator_;
  void* const room_;
  const Graph graph_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Create(Driver* driver, const Gpu& gpu,
                                                               const Context& context,
                                                               std::string name) {
  const Phase phase("create a device on a GPU");
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
      allocator_(std::make_unique<StreamOrderedAllocator>(
          driver, context, pool, stream, Device::name(),
          [this](const absl::Status& status) { Keep(status); })),
      staging_(driver, context) {}

// Any thread may run this, because any thread may destroy the last tensor. Handles and plans of
// libraries must outlive the work that was enqueued with them, so the stream is synchronised first.
CudaDevice::~CudaDevice() {
  driver_->Within(context_, [this] {
    driver_->Synchronize(stream_).IgnoreError();
    attached_.clear();
    allocator_.reset();
    driver_->DestroyStream(stream_);
  });
}

std::shared_ptr<Device> CudaDevice::MakeSibling() const {
  auto twin = Create(driver_, gpu_, context_, name());
  DPIPE_CHECK(twin.ok()) << "cannot create a sibling of " << name() << ": "
                         << twin.status().message();
  return *std::move(twin);
}

absl::Status CudaDevice::BindThread() const { return driver_->MakeCurrent(context_); }

void CudaDevice::Keep(const absl::Status& status) {
  if (status.ok()) return;
  absl::MutexLock lock(&mutex_);
  absl::Status& kept = recording() ? recording_error_ : first_error_;
  if (kept.ok()) kept = status;
}

bool CudaDevice::MayUse(const char* call) {
  if (!recording()) return true;
  Keep(absl::FailedPreconditionError(absl::StrCat(call, " cannot be recorded")));
  return false;
}

absl::Status CudaDevice::Synchronize() {
  if (!MayUse("waiting for the device")) {
    return absl::FailedPreconditionError(absl::StrCat(name(), " is recording"));
  }
  const RecordingGate::Use use(&gate_);
  Keep(driver_->Synchronize(stream_));
  {
    absl::MutexLock lock(&mutex_);
    if (!first_error_.ok()) {
      return absl::Status(first_error_.code(), absl::StrCat(name(), ": ", first_error_.message()));
    }
  }
  return SetAnchor();
}

// The stream is idle, so the event is reached at once. CUDA reports the time between two events as
// a float in milliseconds: a recent anchor keeps these times short and therefore exact.
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

Nanos CudaDevice::TimeOf(Event event) const {
  absl::MutexLock lock(&mutex_);
  return anchor_->time_ns + driver_->ElapsedNs(anchor_->event, event).value_or(0);
}

void CudaDevice::CopyFromHost(void* to, const void* host, int64_t size_bytes) {
  if (!MayUse("a copy from the host")) return;
  const RecordingGate::Use use(&gate_);
  Keep(staging_.ToDevice(to, host, size_bytes, stream_));
}

void CudaDevice::CopyToHost(void* host, const void* from, int64_t size_bytes) {
  if (!MayUse("a copy to the host")) {
    std::memset(host, 0, size_bytes);
    return;
  }
  const RecordingGate::Use use(&gate_);
  const absl::Status copied = staging_.ToHost(host, from, size_bytes, stream_);
  if (!copied.ok()) std::memset(host, 0, size_bytes);  // avoids reads of uninitialised memory
  Keep(copied);
}

void CudaDevice::CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) {
  if (size_bytes == 0) return;
  if (&peer != this) {
    if (!MayUse("a copy from another device")) return;
    WaitFor(*peer.RecordEvent());
  }
  const RecordingGate::Use use(&gate_);
  const int peer_gpu = CudaDeviceOf(peer).gpu_.index;
  Keep(peer_gpu == gpu_.index
           ? driver_->Copy(to, from, size_bytes, stream_)
           : driver_->CopyBetween(to, gpu_.index, from, peer_gpu, size_bytes, stream_));
}

void CudaDevice::FillZero(void* data, int64_t size_bytes) {
  const RecordingGate::Use use(&gate_);
  if (size_bytes > 0) Keep(driver_->Fill(data, 0, size_bytes, stream_));
}

void CudaDevice::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                         int64_t count) {
  const RecordingGate::Use use(&gate_);
  const WorkScope scope("convert");
  CountWork(0, static_cast<double>(count * (SizeOf(to_dtype) + SizeOf(from_dtype))));
  Keep(driver_->Convert(to, to_dtype, from, from_dtype, count, stream_));
}

void CudaDevice::Delay(Nanos duration_ns) {
  const RecordingGate::Use use(&gate_);
  Keep(driver_->Delay(duration_ns, stream_));
}

void CudaDevice::AddUp(absl::Span<const OrderedSum> sums) {
  const RecordingGate::Use use(&gate_);
  const WorkScope scope("sums over tensors");
  Keep(driver_->AddUp(sums, stream_));
}

// If this thread is recording, the event is never recorded: it either counts as reached or is never
// reached.
std::shared_ptr<DeviceEvent> CudaDevice::RecordEvent() {
  const bool may_record = MayUse("an event");
  const RecordingGate::Use use(&gate_);
  const absl::StatusOr<Event> event = driver_->CreateEvent(context_);
  Keep(event.status());
  if (may_record && event.ok()) Keep(driver_->Record(*event, stream_));
  absl::MutexLock lock(&mutex_);
  return std::make_shared<RecordedEvent>(driver_, event.ok() ? *event : nullptr, anchor_);
}

void CudaDevice::WaitFor(const DeviceEvent& event) {
  if (!MayUse("waiting for an event")) return;
  const Event recorded = static_cast<const RecordedEvent&>(event).event();
  if (recorded == nullptr) return;
  const RecordingGate::Use use(&gate_);
  Keep(driver_->Wait(stream_, recorded));
}

void CudaDevice::ReleaseBorrowed(absl::Span<const BorrowedBlock> blocks) {
  if (blocks.empty() || recording()) return;  // Record has waited for earlier work
  const RecordingGate::Use use(&gate_);
  const absl::StatusOr<Event> event = driver_->CreateEvent(context_);
  if (!event.ok()) return Keep(event.status());  // the device no longer uses anything
  const auto end = std::make_shared<const OwnedEvent>(driver_, *event);
  Keep(driver_->Record(end->get(), stream_));
  std::map<Device*, std::vector<void*>> by_owner;
  for (const BorrowedBlock& block : blocks) by_owner[block.owner].push_back(block.data);
  for (const auto& [owner, borrowed] : by_owner) {
    CudaDeviceOf(*owner).allocator_->AddUse(borrowed, stream_, end);
  }
}

int64_t CudaDevice::MeasureMemory(const std::function<void()>& work) {
  allocator_->BeginMeasuring();
  work();
  return allocator_->EndMeasuring();
}

// An error that was kept during `work` takes precedence over the status that `work` returns,
// because it often is its cause.
absl::StatusOr<Graph> CudaDevice::Capture(const std::function<absl::Status()>& work) {
  DPIPE_RETURN_IF_ERROR(driver_->BeginCapture(stream_));
  const absl::Status returned = work();
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = std::exchange(recording_error_, absl::OkStatus());
  }
  status.Update(returned);
  if (status.ok()) return driver_->EndCapture(stream_);
  driver_->DropCapture(stream_);
  return status;
}

absl::StatusOr<std::unique_ptr<DeviceGraph>> CudaDevice::Record(
    int64_t memory_bytes, const std::function<absl::Status()>& work) {
  DPIPE_RETURN_IF_ERROR(driver_->Synchronize(stream_));
  DPIPE_ASSIGN_OR_RETURN(void* const room, allocator_->MakeRoom(memory_bytes));
  gate_.Close();
  allocator_->EnterRoom(room);
  const absl::StatusOr<Graph> graph = Capture(work);
  allocator_->LeaveRoom();
  gate_.Open();
  if (graph.ok()) return std::make_unique<RecordedGraph>(this, allocator_.get(), room, *graph);
  allocator_->DropRoom(room);
  return graph.status();
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
        absl::StrCat("requested ", first + count, " GPUs, but ", DescribeGpus(gpus)));
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

namespace {

// One eighth of the GPU's memory is left unused:
// - CUDA's context and libraries take 1 to 2 GB.
// - Plans count the activations that layers pass on and save. They do not count the workspace of
//   kernels and nodes (a VAE encoder on 4 images of 512 pixels: 1 GB) or the idle space between a
//   pool's blocks.
int64_t Usable(const Gpu& gpu) { return gpu.memory_bytes - gpu.memory_bytes / 8; }

// Returns null for CPUs and emulated GPUs.
const Gpu* GpuOf(const Device& device) {
  const auto* const gpu = dynamic_cast<const CudaDevice*>(&device);
  return gpu == nullptr ? nullptr : &gpu->gpu();
}

}  // namespace

std::vector<int64_t> UsableBytes(const std::vector<std::shared_ptr<Device>>& devices) {
  std::map<int, int> num_sharing;  // GPU index to number of its devices
  for (const auto& device : devices) {
    if (const Gpu* gpu = GpuOf(*device)) ++num_sharing[gpu->index];
  }
  std::vector<int64_t> usable;
  for (const auto& device : devices) {
    const Gpu* const gpu = GpuOf(*device);
    usable.push_back(gpu == nullptr ? 0 : Usable(*gpu) / num_sharing[gpu->index]);
  }
  return usable;
}

bool ShareOneGpu(const std::vector<std::shared_ptr<Device>>& devices) {
  const Gpu* const first = devices.empty() ? nullptr : GpuOf(*devices[0]);
  if (first == nullptr || devices.size() == 1) return false;
  return std::all_of(devices.begin(), devices.end(), [&](const auto& device) {
    const Gpu* const gpu = GpuOf(*device);
    return gpu != nullptr && gpu->index == first->index;
  });
}

}  // namespace dpipe::cuda
