#include "core/comm/nccl/connect_nccl.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/check.h"
#include "core/comm/nccl/nccl_communicator.h"
#include "core/comm/nccl/testing/fake_nccl.h"
#include "core/comm/nccl/testing/send_through_gpu.h"
#include "core/comm/rendezvous/testing/bare_peer.h"
#include "core/comm/testing/conformance.h"
#include "core/comm/testing/store_ranks.h"
#include "core/tensor/cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Ranks on threads, each with a fake GPU and a connection to the store as if it were a process.
class Ranks {
 public:
  explicit Ranks(int size, absl::Duration deadline = absl::Seconds(60))
      : deadline_(deadline), nccl_(&driver_), store_(std::make_unique<StoreRanks>(size)) {
    driver_.SetNumGpus(size);
    devices_ = *cuda::CreateCudaDevices(&driver_, size);
  }
  ~Ranks() {
    store_ = nullptr;
    EXPECT_EQ(nccl_.num_live_communicators(), 0);
    devices_.clear();
    EXPECT_THAT(driver_.violations(), IsEmpty());
    EXPECT_THAT(nccl_.violations(), IsEmpty());
    EXPECT_EQ(driver_.num_live_handles(), 0);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(StoreClient* store, int rank) {
    return ConnectNccl(nccl_.api(), store,
                       {"test", Rank(rank), store_->size(), devices_[rank], deadline_});
  }

  void AwaitCommunicators(int count) const {
    while (nccl_.num_live_communicators() < count) std::this_thread::yield();
  }
  // Runs all GPU work that can complete.
  void LetGpusRun() { driver_.RunAll(); }

  const StoreRanks& store() const { return *store_; }
  int port() const { return store_->port(); }
  const JobSecret& secret() const { return store_->secret(); }
  const std::shared_ptr<Device>& device(int rank) const { return devices_[rank]; }
  FakeNccl& nccl() { return nccl_; }

 private:
  const absl::Duration deadline_;
  cuda::FakeDriver driver_;
  FakeNccl nccl_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::unique_ptr<StoreRanks> store_;
};

Transport Nccl() {
  Transport transport;
  transport.name = "nccl_by_store";
  transport.in_device_order = true;
  transport.run = [](int size, absl::Duration deadline, const Transport::Body& body) {
    Ranks ranks(size, deadline);
    const auto connect = [&](StoreClient* store,
                             int rank) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      DPIPE_ASSIGN_OR_RETURN(auto inner, ranks.Connect(store, rank));
      return SendThroughGpu(std::move(inner), ranks.device(rank), Device::Cpu());
    };
    return ranks.store().Run(connect, body);
  };
  return transport;
}

INSTANTIATE_TEST_SUITE_P(Transports, ConformanceTest, ::testing::Values(Nccl()), TransportName);

// A process that dies without notifying anybody.
class NoPeers : public NcclPeers {
 public:
  void Join(Member member) override {}
  void Tell(const absl::Status& status) override {}
  absl::Status Cause() override { return absl::OkStatus(); }
  void Leave() override {}
};

// Rank 2 of 3, whose connection to the store the test closes.
class DyingRank {
 public:
  explicit DyingRank(Ranks* ranks)
      : ranks_(ranks), store_(BarePeer::AsJoined(ranks->port(), ranks->secret(), 2, 3)) {
    StoreMessage here;
    here.mutable_set()->set_key("nccl/test/here/2");
    store_.Say(here);
  }

  void Connect(const std::string& ids) {
    constexpr size_t kSize = sizeof(ncclUniqueId);
    NcclOptions options;
    options.api = ranks_->nccl().api();
    options.rank = Rank(2);
    options.size = 3;
    options.ids = {ids.substr(0, kSize), ids.substr(kSize, kSize), ids.substr(2 * kSize)};
    options.device = ranks_->device(2);
    options.peers = std::make_shared<NoPeers>();
    auto connected = CreateNcclCommunicator(options);
    DPIPE_CHECK(connected.ok()) << connected.status();
    communicator_ = *std::move(connected);
  }
  // Sends zeros. If this is the first message, returns when rank 1 receives it.
  void SendToRank1(const std::string& what) {
    const Tensor t = Tensor::Zeros(ranks_->device(2), {4}, DType::kF32);
    DPIPE_CHECK(communicator_->Send(Rank(1), 0, {t}, what).ok());
  }
  void Die() { store_.Close(); }

 private:
  Ranks* const ranks_;
  BarePeer store_;
  std::unique_ptr<Communicator> communicator_;
};

// Receives from the next rank and sends to the previous one.
absl::Status PassDown(Communicator& communicator, const std::shared_ptr<Device>& device) {
  const int rank = communicator.rank().value();
  communicator.BeginMessages();
  DPIPE_RETURN_IF_ERROR(
      communicator.PostRecv(Rank(rank + 1), 0, {{{4}, DType::kF32}}, "greeting").status());
  if (rank > 0) {
    const Tensor t = Tensor::Zeros(device, {4}, DType::kF32);
    DPIPE_RETURN_IF_ERROR(communicator.Send(Rank(rank - 1), 0, {t}, "greeting"));
  }
  return communicator.EndMessages();
}

// Makes rank 1 wait for rank 2, which then dies, and rank 0 for rank 1. Calls `before_death` when
// both wait.
std::vector<absl::Status> WaitForADyingRank(Ranks* ranks,
                                            const std::function<void()>& before_death) {
  StoreClient* first = nullptr;
  absl::Notification joined;
  const auto wait = [&](StoreClient* store, int rank) -> absl::Status {
    if (rank == 0) {
      first = store;
      joined.Notify();
    }
    DPIPE_ASSIGN_OR_RETURN(const auto communicator, ranks->Connect(store, rank));
    DPIPE_RETURN_IF_ERROR(PassDown(*communicator, ranks->device(rank)));
    DPIPE_RETURN_IF_ERROR(communicator
                              ->PostRecv(Rank(rank + 1), 0, {{{4}, DType::kF32}},
                                         absl::StrCat("activation of micro-batch ", rank))
                              .status());
    ranks->LetGpusRun();
    DPIPE_RETURN_IF_ERROR(store->Set(absl::StrCat("waits ", rank), ""));
    double value = 0;
    return communicator->AllReduceSum(absl::MakeSpan(&value, 1), "loss");
  };
  return ranks->store().RunJoined(2, wait, [&] {
    DyingRank dying(ranks);
    joined.WaitForNotification();
    const auto ids = first->Get("nccl/test/ids", "NCCL's ids");
    DPIPE_CHECK(ids.ok()) << ids.status();
    dying.Connect(*ids);
    dying.SendToRank1("greeting");
    for (const char* key : {"waits 0", "waits 1"}) DPIPE_CHECK(first->Get(key, key).ok());
    before_death();
    dying.Die();
  });
}

void ExpectTheDeathNamed(const std::vector<absl::Status>& statuses) {
  for (int rank : {0, 1}) {
    EXPECT_THAT(std::string(statuses[rank].message()),
                AllOf(StartsWith(absl::StrCat("rank ", rank, " waited ")),
                      HasSubstr(absl::StrCat(" for activation of micro-batch ", rank, " from rank ",
                                             rank + 1, ": ")),
                      HasSubstr("rank 2 (pid 7 on node2) has died")))
        << rank;
  }
}

TEST(ConnectNcclTest, WaitersOfDeadRankNameIt) {
  Ranks ranks(3);
  ExpectTheDeathNamed(WaitForADyingRank(&ranks, [] {}));
}

TEST(ConnectNcclTest, DeadRankIsNamedEvenIfNcclNoticesFirst) {
  Ranks ranks(3);
  ExpectTheDeathNamed(WaitForADyingRank(&ranks, [&] { ranks.nccl().Break(1, ncclRemoteError); }));
}

// No rank waits for the deadline, which is a minute here.
TEST(ConnectNcclTest, DeathDuringConnectIsNamed) {
  Ranks ranks(3);
  const auto connect = [&](StoreClient* store, int rank) {
    return ranks.Connect(store, rank).status();
  };
  const auto statuses = ranks.store().RunJoined(2, connect, [&] {
    DyingRank dying(&ranks);
    ranks.AwaitCommunicators(2);
    dying.Die();
  });
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].code(), absl::StatusCode::kUnavailable) << statuses[rank];
    EXPECT_THAT(std::string(statuses[rank].message()),
                AllOf(StartsWith(absl::StrCat("rank ", rank,
                                              ", connecting to the other 2 ranks by NCCL: ")),
                      HasSubstr("rank 2 (pid 7 on node2) has died")));
  }
}

// A rank's first message to another waits for it on the rank's thread.
TEST(ConnectNcclTest, WaiterForFirstMessageOfDeadRankNamesIt) {
  Ranks ranks(3);
  StoreClient* first = nullptr;
  absl::Notification joined;
  const auto wait = [&](StoreClient* store, int rank) -> absl::Status {
    if (rank == 0) {
      first = store;
      joined.Notify();
    }
    DPIPE_ASSIGN_OR_RETURN(const auto communicator, ranks.Connect(store, rank));
    DPIPE_RETURN_IF_ERROR(store->Set(absl::StrCat("connected ", rank), ""));
    return PassDown(*communicator, ranks.device(rank));
  };
  const auto statuses = ranks.store().RunJoined(2, wait, [&] {
    DyingRank dying(&ranks);
    joined.WaitForNotification();
    const auto ids = first->Get("nccl/test/ids", "NCCL's ids");
    DPIPE_CHECK(ids.ok()) << ids.status();
    dying.Connect(*ids);
    for (const char* key : {"connected 0", "connected 1"}) DPIPE_CHECK(first->Get(key, key).ok());
    dying.Die();
  });
  EXPECT_THAT(std::string(statuses[1].message()),
              AllOf(StartsWith("rank 1 waited "), HasSubstr(" for greeting from rank 2"),
                    HasSubstr("rank 2 (pid 7 on node2) has died")));
}

// The GPU's results are then invalid, and the device reports so.
TEST(ConnectNcclTest, UnexplainedErrorEndsTheJob) {
  Ranks ranks(2);
  const auto body = [&](StoreClient* store, int rank) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(const auto communicator, ranks.Connect(store, rank));
    const Tensor greeting = Tensor::Zeros(ranks.device(rank), {4}, DType::kF32);
    if (rank == 1) {
      DPIPE_RETURN_IF_ERROR(communicator->Send(Rank(0), 0, {greeting}, "greeting"));
      DPIPE_RETURN_IF_ERROR(store->Get("waits", "rank 0").status());
      ranks.nccl().Break(1, ncclInternalError);
      EXPECT_TRUE(store->AwaitFailure(absl::Seconds(60)));
      return store->failure();
    }
    DPIPE_RETURN_IF_ERROR(
        communicator->PostRecv(Rank(1), 0, {{{4}, DType::kF32}}, "greeting").status());
    DPIPE_ASSIGN_OR_RETURN(const auto recv,
                           communicator->PostRecv(Rank(1), 0, {{{4}, DType::kF32}}, "activation"));
    const absl::Status waits = recv->Wait().status();
    EXPECT_TRUE(waits.ok()) << waits;  // only the GPU waits
    DPIPE_RETURN_IF_ERROR(store->Set("waits", ""));
    return ranks.device(0)->Synchronize();
  };
  const auto statuses = ranks.store().RunJoined(2, body);
  EXPECT_THAT(std::string(statuses[1].message()), StartsWith("rank 1 NCCL, "));
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("rank 0 waited "), HasSubstr(" for activation from rank 1: "),
                    HasSubstr("rank 1 NCCL, ")));
}

TEST(ConnectNcclTest, ErrorNamesMissingRank) {
  Ranks ranks(2, absl::Milliseconds(200));
  const auto statuses = ranks.store().RunJoined(2, [&](StoreClient* store, int rank) {
    if (rank == 0) return ranks.Connect(store, 0).status();
    EXPECT_TRUE(store->AwaitFailure(absl::Seconds(60)));
    return store->failure();
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(" for rank 1 to connect to: "));
  }
}

// The failure occurs before the rank has called anything: the first call names its message.
TEST(ConnectNcclTest, FirstMessageAfterAFailureIsNamed) {
  Ranks ranks(2);
  const auto statuses =
      ranks.store().RunJoined(2, [&](StoreClient* store, int rank) -> absl::Status {
        DPIPE_ASSIGN_OR_RETURN(const auto communicator, ranks.Connect(store, rank));
        if (rank == 0) {
          DPIPE_RETURN_IF_ERROR(store->Get("rank 1 is connected", "rank 1").status());
          communicator->Abort(absl::InternalError("rank 0 ran out of disk"));
          return absl::OkStatus();
        }
        DPIPE_RETURN_IF_ERROR(store->Set("rank 1 is connected", ""));
        EXPECT_TRUE(store->AwaitFailure(absl::Seconds(60)));
        DPIPE_ASSIGN_OR_RETURN(
            auto recv, communicator->PostRecv(Rank(0), 0, {{{4}, DType::kF32}}, "activation"));
        DPIPE_RETURN_IF_ERROR(recv->Wait().status());
        return ranks.device(1)->Synchronize();
      });
  EXPECT_THAT(std::string(statuses[1].message()),
              AllOf(HasSubstr("rank 1 waited "),
                    EndsWith(" for activation from rank 0: rank 0 ran out of disk")));
}

TEST(ConnectNcclTest, LeavesOnlyWhenAllHaveFinished) {
  Ranks ranks(2);
  std::atomic<bool> other_ends = false;
  const auto body = [&](StoreClient* store, int rank) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(auto communicator, ranks.Connect(store, rank));
    if (rank == 0) {
      DPIPE_RETURN_IF_ERROR(store->Set("rank 0 ends", ""));
      communicator = nullptr;
      EXPECT_TRUE(other_ends);
    } else {
      DPIPE_RETURN_IF_ERROR(store->Get("rank 0 ends", "rank 0").status());
      other_ends = true;
      communicator = nullptr;
    }
    return store->failure();
  };
  for (const absl::Status& status : ranks.store().RunJoined(2, body)) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace dpipe
