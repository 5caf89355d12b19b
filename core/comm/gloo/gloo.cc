#include "core/comm/gloo/gloo.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/comm/collective_thread.h"
#include "core/comm/communicator.h"
#include "core/comm/gloo/gloo_exchange.h"
#include "core/comm/gloo/gloo_mesh.h"

namespace dpipe {
namespace {

// A message is a header of this size, which describes its contents, followed by its tensors, each
// sent separately. The receiver states what it expects, and the header reveals a mismatch.
constexpr size_t kHeaderBytes = 256;

uint64_t HeaderSlot(int64_t tag) { return GlooSlot({2, static_cast<uint64_t>(tag)}); }

uint64_t TensorSlot(int64_t tag, size_t i, int64_t size_bytes) {
  return GlooSlot({3, static_cast<uint64_t>(tag), i, static_cast<uint64_t>(size_bytes)});
}

// Returns the specs' names if they fit, which suffices to compare them. Otherwise truncates them
// and appends a hash of the full text.
std::string Header(absl::Span<const TensorSpec> specs) {
  std::string text = SpecNames(specs);
  if (text.size() > kHeaderBytes) {
    uint64_t fingerprint = text.size();
    for (char c : text) fingerprint = GlooSlot({fingerprint, static_cast<uint64_t>(c)});
    const std::string end = absl::StrCat("... ", absl::Hex(fingerprint, absl::kZeroPad16));
    text.resize(kHeaderBytes - end.size());
    text += end;
  }
  text.resize(kHeaderBytes, '\0');
  return text;
}

std::string HeaderText(const std::string& header) { return header.c_str(); }

// Expected tensors, and the memory that they are received into.
struct Arrival {
  std::string header;
  std::vector<Tensor> tensors;
  // Into the two above; destroyed before them.
  std::vector<std::unique_ptr<GlooTransfer>> transfers;
};

// Receives that nobody waits for any more. Their bytes still arrive, and without a buffer they
// would block those that come after them.
class Abandoned {
 public:
  void Add(std::unique_ptr<Arrival> arrival) {
    absl::MutexLock lock(&mutex_);
    arrivals_.push_back(std::move(arrival));
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Arrival>> arrivals_ ABSL_GUARDED_BY(mutex_);
};

class GlooRecv : public PendingRecv {
 public:
  GlooRecv(GlooMesh* mesh, Abandoned* abandoned, Rank from, std::string what)
      : mesh_(mesh), abandoned_(abandoned), from_(from), what_(std::move(what)) {}
  ~GlooRecv() override {
    if (!done_) abandoned_->Add(std::move(arrival_));
  }

  absl::Status Post(int64_t tag, const std::vector<TensorSpec>& specs,
                    const std::shared_ptr<Device>& device) {
    expected_ = Header(specs);
    arrival_->header.resize(kHeaderBytes);
    DPIPE_RETURN_IF_ERROR(Add(HeaderSlot(tag), &arrival_->header[0], kHeaderBytes));
    for (size_t i = 0; i < specs.size(); ++i) {
      const Tensor tensor = Tensor::Empty(device, specs[i].shape, specs[i].dtype);
      arrival_->tensors.push_back(tensor);
      const int64_t size = tensor.size_bytes();
      if (size == 0) continue;
      DPIPE_RETURN_IF_ERROR(Add(TensorSlot(tag, i, size), tensor.raw_data(), size));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    for (size_t i = 0; i < arrival_->transfers.size(); ++i) {
      DPIPE_RETURN_IF_ERROR(mesh_->Wait(arrival_->transfers[i].get(), what_));
      if (i > 0 || arrival_->header == expected_) continue;
      const absl::Status wrong = WrongSpecs(Rank(mesh_->rank()), from_, what_,
                                            HeaderText(expected_), HeaderText(arrival_->header));
      mesh_->Abort(wrong);  // nobody would ever receive the tensors
      return wrong;
    }
    done_ = true;
    return std::move(arrival_->tensors);
  }

 private:
  absl::Status Add(uint64_t slot, void* data, int64_t size_bytes) {
    DPIPE_ASSIGN_OR_RETURN(arrival_->transfers.emplace_back(),
                           mesh_->Receive(from_.value(), slot, data, size_bytes));
    return absl::OkStatus();
  }

  GlooMesh* const mesh_;
  Abandoned* const abandoned_;
  const Rank from_;
  const std::string what_;
  std::string expected_;
  std::unique_ptr<Arrival> arrival_ = std::make_unique<Arrival>();
  bool done_ = false;
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::unique_ptr<GlooMesh> mesh, std::shared_ptr<Device> device)
      : device_(std::move(device)),
        mesh_(std::move(mesh)),
        collectives_(mesh_.get()),
        values_(mesh_.get()),
        outbox_(std::make_unique<GlooOutbox>(mesh_.get())),
        thread_(std::make_unique<CollectiveThread>()) {}

  // A connection that closes while bytes arrive drops its unsent bytes. So all ranks close only
  // when each has received everything: the last message from a rank says that it has finished.
  ~GlooCommunicator() override {
    thread_ = nullptr;
    outbox_ = nullptr;
    if (mesh_->failure().ok() && size() > 1) values_.MeetAtEnd().IgnoreError();
  }

  Rank rank() const override { return Rank(mesh_->rank()); }
  int size() const override { return mesh_->size(); }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), to, what));
    auto parcel = std::make_unique<GlooOutbox::Parcel>();
    parcel->what = what;
    parcel->tensors = std::move(tensors);
    parcel->header = Header(SpecsOf(parcel->tensors));
    const auto add = [&](uint64_t slot, const void* data, int64_t size_bytes) -> absl::Status {
      DPIPE_ASSIGN_OR_RETURN(parcel->transfers.emplace_back(),
                             mesh_->Send(to.value(), slot, data, size_bytes));
      return absl::OkStatus();
    };
    absl::Status status = add(HeaderSlot(tag), parcel->header.data(), kHeaderBytes);
    for (size_t i = 0; status.ok() && i < parcel->tensors.size(); ++i) {
      const Tensor& tensor = parcel->tensors[i];
      const int64_t size = tensor.size_bytes();
      if (size > 0) status = add(TensorSlot(tag, i, size), tensor.raw_data(), size);
    }
    if (!status.ok()) {
      return absl::Status(
          status.code(), absl::StrCat("rank ", mesh_->rank(), " could not send ", what, " to rank ",
                                      to.value(), ": ", status.message()));
    }
    outbox_->Add(std::move(parcel));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), from, what));
    auto recv = std::make_unique<GlooRecv>(mesh_.get(), &abandoned_, from, what);
    const absl::Status status = recv->Post(tag, specs, device_);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("rank ", mesh_->rank(), " could not wait for ", what,
                                       " from rank ", from.value(), ": ", status.message()));
    }
    return std::unique_ptr<PendingRecv>(std::move(recv));
  }

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    return thread_->Start([this, group = GroupOf(rank(), group, what), tensors = std::move(tensors),
                           what] { return collectives_.AllReduceSum(group, tensors, what); });
  }

  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return thread_->Start([this, group = GroupOf(rank(), group, what), shards = std::move(shards),
                           full = std::move(full),
                           what] { return collectives_.AllGather(group, shards, full, what); });
  }

  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
    return thread_->Start([this, group = GroupOf(rank(), group, what), full = std::move(full),
                           shards = std::move(shards), what] {
      return collectives_.ReduceScatterSum(group, full, shards, what);
    });
  }

  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return values_.AllReduceSum(values, what);
  }

  void Abort(const absl::Status& status) override { mesh_->Abort(status); }

 private:
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<GlooMesh> mesh_;
  Abandoned abandoned_;
  GlooExchange collectives_;  // used by the thread
  GlooExchange values_;       // used by the rank
  std::unique_ptr<GlooOutbox> outbox_;
  std::unique_ptr<CollectiveThread> thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectGloo(StoreClient* store,
                                                          const GlooOptions& options) {
  DPIPE_CHECK(options.device != nullptr);
  GlooMesh::Options mesh_options;
  mesh_options.name = options.name;
  mesh_options.rank = options.rank.value();
  mesh_options.size = options.size;
  mesh_options.deadline = options.deadline;
  DPIPE_ASSIGN_OR_RETURN(auto mesh, GlooMesh::Connect(store, mesh_options));
  return std::unique_ptr<Communicator>(
      std::make_unique<GlooCommunicator>(std::move(mesh), options.device));
}

}  // namespace dpipe
