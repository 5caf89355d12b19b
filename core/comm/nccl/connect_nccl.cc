#include "core/comm/nccl/connect_nccl.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/comm/nccl/nccl_communicator.h"
#include "core/comm/rendezvous/store/store_client.h"

namespace dpipe {
namespace {

// By default, CUDA distributes a process's streams over this many hardware queues of the GPU. If
// two streams share a queue, a wait on one also blocks the other, and communicators that wait for
// each other's ranks deadlock.
constexpr int kMinQueues = 8;
constexpr char kQueues[] = "CUDA_DEVICE_MAX_CONNECTIONS";

absl::Status CheckQueues() {
  const char* const text = std::getenv(kQueues);
  int queues = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &queues) || queues >= kMinQueues) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(kQueues, " is ", queues, ", which makes streams block each other; set it to ",
                   kMinQueues, " or more, or unset it"));
}

// How long the store may take to notice a death that NCCL has noticed.
constexpr absl::Duration kGrace = absl::Seconds(2);

// Ranks that are threads of one process.
class LocalPeers : public NcclPeers {
 public:
  struct Members {
    absl::Mutex mutex;
    absl::Status failure ABSL_GUARDED_BY(mutex);
    std::map<int, Member> joined ABSL_GUARDED_BY(mutex);
    std::set<int> being_notified ABSL_GUARDED_BY(mutex);  // ranks
  };
  LocalPeers(std::shared_ptr<Members> members, int rank)
      : members_(std::move(members)), rank_(rank) {}

  void Join(Member member) override {
    absl::Status failure;
    {
      absl::MutexLock lock(&members_->mutex);
      failure = members_->failure;
      if (failure.ok()) members_->joined[rank_] = member;
    }
    if (!failure.ok()) member.on_failure(failure);
  }
  // Notifies all at the same time, and without a lock, because `on_failure` waits for a GPU to
  // stop.
  void Tell(const absl::Status& status) override {
    std::map<int, Member> others;
    {
      absl::MutexLock lock(&members_->mutex);
      if (!members_->failure.ok()) return;
      members_->failure = status;
      others = members_->joined;
      others.erase(rank_);
      for (const auto& [rank, other] : others) members_->being_notified.insert(rank);
    }
    std::vector<std::thread> threads;
    for (const auto& [rank, other] : others) {
      threads.emplace_back([this, rank = rank, &on_failure = other.on_failure, &status] {
        on_failure(status);
        absl::MutexLock lock(&members_->mutex);
        members_->being_notified.erase(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  absl::Status Cause() override { return absl::OkStatus(); }
  // One thread may destroy the communicators of all ranks, one after another, when all have posted
  // everything. So this waits for the other ranks' GPUs, but not for the others to leave.
  void Leave() override {
    while (!OthersAreIdle()) absl::SleepFor(absl::Milliseconds(1));
    absl::MutexLock lock(&members_->mutex);
    members_->joined.erase(rank_);
    const auto is_done = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return members_->being_notified.count(rank_) == 0;
    };
    members_->mutex.Await(absl::Condition(&is_done));
  }

 private:
  bool OthersAreIdle() const {
    absl::MutexLock lock(&members_->mutex);
    if (!members_->failure.ok()) return true;
    for (const auto& [rank, member] : members_->joined) {
      if (rank != rank_ && !member.is_idle()) return false;
    }
    return true;
  }

  const std::shared_ptr<Members> members_;
  const int rank_;
};

class StorePeers : public NcclPeers {
 public:
  // `key` identifies these communicators in the store.
  StorePeers(StoreClient* store, std::string key, int rank, int size)
      : store_(store), key_(std::move(key)), rank_(rank), size_(size) {}

  void Join(Member member) override {
    listener_ = store_->AddFailureListener(std::move(member.on_failure));
  }
  void Tell(const absl::Status& status) override { store_->Fail(status); }
  absl::Status Cause() override {
    store_->AwaitFailure(kGrace);
    return store_->failure();
  }
  // There is no deadline, because other ranks may save or sample before they leave.
  void Leave() override {
    if (store_->failure().ok()) {
      MeetRanks(store_, absl::StrCat(key_, "/end"), rank_, size_, "to end").IgnoreError();
    }
    store_->RemoveFailureListener(listener_);
  }

 private:
  StoreClient* const store_;
  const std::string key_;
  const int rank_, size_;
  int listener_ = -1;
};

// Returns the node of each rank when all ranks have joined. Ranks whose processes have the same
// host name are on one node.
absl::StatusOr<std::vector<int>> MeetOnNodes(StoreClient* store, const std::string& key,
                                             const JobRank& rank) {
  DPIPE_ASSIGN_OR_RETURN(
      const std::vector<std::string> hosts,
      ExchangeTexts(store, absl::StrCat(key, "/here"), rank.rank.value(), rank.size,
                    store->HostOf(store->process()), "to connect to", rank.deadline));
  std::map<std::string, int> numbers;
  std::vector<int> nodes;
  for (const std::string& host : hosts) {
    nodes.push_back(numbers.emplace(host, static_cast<int>(numbers.size())).first->second);
  }
  return nodes;
}

// Distributes rank 0's ids to all ranks.
absl::StatusOr<NcclIds> ShareIds(const NcclApi& api, StoreClient* store, const std::string& key,
                                 const JobRank& rank) {
  const std::string ids_key = absl::StrCat(key, "/ids");
  if (rank.rank == Rank(0)) {
    DPIPE_ASSIGN_OR_RETURN(NcclIds ids, NewNcclIds(api));
    DPIPE_RETURN_IF_ERROR(store->Set(ids_key, absl::StrCat(ids.up, ids.down, ids.collectives)));
    return ids;
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string all, store->Get(ids_key, "NCCL's ids from rank 0"));
  constexpr size_t kSize = sizeof(ncclUniqueId);
  if (all.size() != 3 * kSize) {
    return absl::InternalError(
        absl::StrCat("rank 0 sent ", all.size(), " bytes as NCCL's ids; expected ", 3 * kSize));
  }
  return NcclIds{all.substr(0, kSize), all.substr(kSize, kSize), all.substr(2 * kSize)};
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateLocalNcclCommunicators(
    const NcclApi* api, const std::vector<std::shared_ptr<Device>>& devices,
    absl::Duration deadline) {
  DPIPE_RETURN_IF_ERROR(CheckQueues());
  DPIPE_ASSIGN_OR_RETURN(const NcclIds ids, NewNcclIds(*api));
  const int size = static_cast<int>(devices.size());
  const auto members = std::make_shared<LocalPeers::Members>();
  std::vector<absl::StatusOr<std::unique_ptr<Communicator>>> made(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      const auto peers = std::make_shared<LocalPeers>(members, r);
      const absl::Status bound = devices[r]->BindThread();
      if (!bound.ok()) {
        peers->Tell(bound);
        made[r] = bound;
        return;
      }
      NcclOptions options;
      options.api = api;
      options.rank = Rank(r);
      options.size = size;
      options.ids = ids;
      options.device = devices[r];
      options.deadline = deadline;
      options.peers = peers;
      made[r] = CreateNcclCommunicator(std::move(options));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& communicator : made) {
    DPIPE_RETURN_IF_ERROR(communicator.status());
    communicators.push_back(*std::move(communicator));
  }
  return communicators;
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclApi* api, StoreClient* store,
                                                          const JobRank& rank) {
  const std::string key = absl::StrCat("nccl/", rank.name);
  const auto connect = [&]() -> absl::StatusOr<std::unique_ptr<Communicator>> {
    DPIPE_RETURN_IF_ERROR(CheckQueues());
    NcclOptions options;
    DPIPE_ASSIGN_OR_RETURN(options.nodes, MeetOnNodes(store, key, rank));
    options.api = api;
    options.rank = rank.rank;
    options.size = rank.size;
    DPIPE_ASSIGN_OR_RETURN(options.ids, ShareIds(*api, store, key, rank));
    options.device = rank.device;
    options.deadline = rank.deadline;
    options.peers = std::make_shared<StorePeers>(store, key, rank.rank.value(), rank.size);
    return CreateNcclCommunicator(std::move(options));
  };
  auto connected = connect();
  if (!connected.ok()) store->Fail(connected.status());
  return connected;
}

}  // namespace dpipe
