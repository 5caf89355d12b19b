#include "core/comm/gloo/gloo.h"

#include <memory>
#include <string>

#include "core/comm/conformance.h"
#include "core/comm/store_ranks.h"
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

// Rank 2 fails while rank 1 waits for it and rank 0 for rank 1. (That the store notices a death,
// and says so in the same way, is store_test's.)
TEST(GlooTest, AFailedRanksWordsReachThoseWhoWaitForItAndOthers) {
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

}  // namespace
}  // namespace dpipe
