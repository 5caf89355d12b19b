#include "core/comm/gloo/gloo.h"

#include <thread>

#include "absl/synchronization/barrier.h"
#include "core/comm/conformance.h"
#include "core/comm/rendezvous/store_server.h"
#include "gmock/gmock.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// Ranks on threads, each with a connection to the store as if it were a process of its own.
class Ranks {
 public:
  explicit Ranks(int size, absl::Duration silence = absl::Seconds(20)) : size_(size) {
    auto listener = ListenTcp(0);
    DPIPE_CHECK(listener.ok()) << listener.status();
    StoreServerOptions options;
    options.num_processes = size;
    options.silence = silence;
    store_ = std::make_unique<StoreServer>(*std::move(listener), options);
  }

  absl::StatusOr<std::unique_ptr<StoreClient>> Join(int rank) {
    StoreClientOptions options;
    options.host = "localhost";
    options.port = store_->port();
    options.process = rank;
    options.num_processes = size_;
    options.name = "rank " + std::to_string(rank);
    return StoreClient::Join(options);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(StoreClient* store, int rank,
                                                        absl::Duration deadline) {
    GlooOptions options;
    options.name = "test";
    options.rank = Rank(rank);
    options.size = size_;
    options.device = Device::Cpu();
    options.deadline = deadline;
    return ConnectGloo(store, options);
  }

 private:
  const int size_;
  std::unique_ptr<StoreServer> store_;
};

void MeetAt(absl::Barrier* barrier) {
  if (barrier->Block()) delete barrier;
}

absl::Status RunRank(Ranks* ranks, int rank, absl::Duration deadline, const Transport::Body& body,
                     absl::Barrier* all_there, absl::Barrier* all_done) {
  auto store = ranks->Join(rank);
  DPIPE_CHECK(store.ok()) << store.status();
  auto communicator = ranks->Connect(store->get(), rank, deadline);
  DPIPE_CHECK(communicator.ok()) << communicator.status();
  MeetAt(all_there);
  const absl::Status status = body(**communicator);
  MeetAt(all_done);
  return status;
}

Transport Gloo() {
  Transport transport;
  transport.name = "gloo";
  transport.run = [](int size, absl::Duration deadline, const Transport::Body& body) {
    Ranks ranks(size);
    auto* all_there = new absl::Barrier(size);
    auto* all_done = new absl::Barrier(size);
    std::vector<absl::Status> statuses(size);
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back(
          [&, i] { statuses[i] = RunRank(&ranks, i, deadline, body, all_there, all_done); });
    }
    for (auto& thread : threads) thread.join();
    return statuses;
  };
  return transport;
}

INSTANTIATE_TEST_SUITE_P(Transports, ConformanceTest, ::testing::Values(Gloo()), TransportName);

// Rank 2 fails while rank 1 waits for it and rank 0 for rank 1. (That the store notices a death,
// and says so in the same way, is store_test's.)
TEST(GlooTest, AFailedRanksWordsReachThoseWhoWaitForItAndOthers) {
  Ranks ranks(3);
  std::vector<absl::Status> statuses(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto store = ranks.Join(rank);
      ASSERT_TRUE(store.ok()) << store.status();
      auto communicator = ranks.Connect(store->get(), rank, absl::Seconds(120));
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      if (rank == 2) {
        for (const char* key : {"posted 0", "posted 1"}) {
          ASSERT_TRUE((*store)->Get(key, "both others").ok());
        }
        return (*store)->Fail(absl::DataLossError("rank 2: the disk is gone"));
      }
      auto recv = (*communicator)->PostRecv(Rank(rank + 1), 7, {{{1}, DType::kF32}}, "activation");
      ASSERT_TRUE(recv.ok()) << recv.status();
      ASSERT_TRUE((*store)->Set("posted " + std::to_string(rank), "").ok());
      statuses[rank] = (*recv)->Wait().status();
    });
  }
  for (auto& thread : threads) thread.join();
  for (int rank : {0, 1}) {
    const std::string message(statuses[rank].message());
    EXPECT_THAT(message, HasSubstr("rank " + std::to_string(rank))) << rank;
    EXPECT_THAT(message, HasSubstr("for activation from rank " + std::to_string(rank + 1)));
    EXPECT_THAT(message, HasSubstr("rank 2: the disk is gone"));
  }
}

}  // namespace
}  // namespace dpipe
