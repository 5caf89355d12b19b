#include "core/comm/gloo/gloo.h"

#include <memory>
#include <string>
#include <thread>

#include "core/comm/testing/conformance.h"
#include "core/comm/testing/store_ranks.h"
#include "gmock/gmock.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Communicator>> Connect(StoreClient* store, int rank, int size,
                                                      absl::Duration deadline) {
  return ConnectGloo(store, {"test", Rank(rank), size, Device::Cpu(), deadline});
}

Transport Gloo() {
  Transport transport;
  transport.name = "gloo";
  transport.run = [](int size, absl::Duration deadline, const Transport::Body& body) {
    return StoreRanks(size).Run(
        [=](StoreClient* store, int rank) { return Connect(store, rank, size, deadline); }, body);
  };
  return transport;
}

INSTANTIATE_TEST_SUITE_P(Transports, ConformanceTest, ::testing::Values(Gloo()), TransportName);

// Rank 2 fails while rank 1 waits for it and rank 0 waits for rank 1. (store_test covers that the
// store notices a death and reports it in the same way.)
TEST(GlooTest, FailureMessageReachesAllWaitingRanks) {
  const StoreRanks ranks(3);
  const auto statuses = ranks.RunJoined(3, [&](StoreClient* store, int rank) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(const auto communicator,
                           Connect(store, rank, ranks.size(), absl::Seconds(120)));
    if (rank == 2) {
      for (const char* key : {"posted 0", "posted 1"}) {
        DPIPE_RETURN_IF_ERROR(store->Get(key, "both others").status());
      }
      store->Fail(absl::DataLossError("rank 2: the disk is gone"));
      return absl::OkStatus();
    }
    DPIPE_ASSIGN_OR_RETURN(
        auto recv, communicator->PostRecv(Rank(rank + 1), 7, {{{1}, DType::kF32}}, "activation"));
    DPIPE_RETURN_IF_ERROR(store->Set("posted " + std::to_string(rank), ""));
    return recv->Wait().status();
  });
  EXPECT_TRUE(statuses[2].ok()) << statuses[2];
  for (int rank : {0, 1}) {
    const std::string message(statuses[rank].message());
    EXPECT_THAT(message, HasSubstr("rank " + std::to_string(rank))) << rank;
    EXPECT_THAT(message, HasSubstr("for activation from rank " + std::to_string(rank + 1)));
    EXPECT_THAT(message, HasSubstr("rank 2: the disk is gone"));
  }
}

// A stranger that has learnt the ranks' addresses and taken over rank 1's connection, but does not
// know the job's secret: rank 1 of another job, with everything copied between its store and ours.
TEST(GlooTest, ConnectionWithoutSecretIsRefused) {
  const StoreRanks ours(2), theirs(2);
  const auto copy = [](StoreClient* from, StoreClient* to, int rank) {
    // The mesh's own key, and Gloo's two.
    for (const char* key : {"gloo/test/here/", "gloo/test/rank_", "gloo/test/"}) {
      const std::string name = key + std::to_string(rank);
      const auto value = from->Get(name, "a value");
      if (value.ok()) to->Set(name, *value).IgnoreError();
    }
  };
  absl::StatusOr<std::unique_ptr<StoreClient>> our_rank_1 = absl::UnknownError("");
  std::thread joining([&] { our_rank_1 = ours.Join(1); });
  const auto our_rank_0 = ours.Join(0);
  joining.join();
  absl::StatusOr<std::unique_ptr<StoreClient>> their_rank_1 = absl::UnknownError("");
  joining = std::thread([&] { their_rank_1 = theirs.Join(1); });
  const auto their_rank_0 = theirs.Join(0);
  joining.join();
  std::thread forth([&] { copy(our_rank_1->get(), their_rank_0->get(), 0); });
  std::thread back([&] { copy(their_rank_0->get(), our_rank_1->get(), 1); });
  absl::Status stranger, own;
  std::thread strange(
      [&] { stranger = Connect(their_rank_1->get(), 1, 2, absl::Seconds(20)).status(); });
  own = Connect(our_rank_0->get(), 0, 2, absl::Seconds(20)).status();
  for (std::thread* thread : {&forth, &back, &strange}) thread->join();
  EXPECT_THAT(std::string(own.message()),
              HasSubstr("rank 0's connection to rank 1 leads to a peer that does not know the "
                        "job's secret"));
  EXPECT_FALSE(stranger.ok());
}

}  // namespace
}  // namespace dpipe
