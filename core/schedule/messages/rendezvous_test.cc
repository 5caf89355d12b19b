#include "core/schedule/messages/rendezvous.h"

#include <vector>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

void Add(Plan* plan, int rank, Instruction::Kind kind, int peer = -1, int step_offset = 0) {
  while (plan->devices_size() <= rank) plan->add_devices()->set_rank(plan->devices_size() - 1);
  Instruction* instruction = plan->mutable_devices(rank)->add_instructions();
  instruction->set_kind(kind);
  instruction->set_peer(peer);
  instruction->set_step_offset(step_offset);
}

constexpr auto kSend = Instruction::SEND;
constexpr auto kRecv = Instruction::RECV;
constexpr auto kWork = Instruction::FORWARD;

TEST(RendezvousTest, OpposingSendsDeadlock) {
  Plan plan;
  for (int rank : {0, 1}) {
    Add(&plan, rank, kSend, 1 - rank);
    Add(&plan, rank, kWork);
    Add(&plan, rank, kRecv, 1 - rank);
  }
  EXPECT_EQ(CheckRendezvous(plan).message(),
            "deadlock in the steady step: rank 0, instruction 0 (SEND) waits forever for rank 1");
}

TEST(RendezvousTest, OpposingSendsPostedTogetherDoNotDeadlock) {
  Plan plan;
  for (int rank : {0, 1}) {
    Add(&plan, rank, kSend, 1 - rank);
    Add(&plan, rank, kRecv, 1 - rank);
    Add(&plan, rank, kWork);
  }
  EXPECT_TRUE(CheckRendezvous(plan).ok()) << CheckRendezvous(plan);
  const auto match = MatchMessages(plan);
  EXPECT_EQ((*match)[0], (std::vector<int>{1, 0, -1}));
}

// Rank 1 sends to rank 2 after its second message to rank 0. Rank 0 has posted, in the same run,
// its receive of rank 1's first message and of what rank 2 sends afterwards.
TEST(RendezvousTest, SecondMessageOfALinkWaitsForEarlierMessages) {
  Plan plan;
  for (int peer : {1, 2, 1}) Add(&plan, 0, kRecv, peer);
  for (int i = 0; i < 2; ++i) {
    Add(&plan, 1, kSend, 0);
    Add(&plan, 1, kWork);
  }
  Add(&plan, 1, kSend, 2);
  Add(&plan, 2, kRecv, 1);
  Add(&plan, 2, kWork);
  Add(&plan, 2, kSend, 0);
  EXPECT_EQ(CheckRendezvous(plan).message(),
            "deadlock in the steady step: rank 0, instruction 0 (RECV) waits forever for rank 1");
  OrderMessages(&plan);
  EXPECT_TRUE(CheckRendezvous(plan).ok()) << CheckRendezvous(plan);
  std::vector<int> peers;
  for (const Instruction& recv : plan.devices(0).instructions()) peers.push_back(recv.peer());
  EXPECT_EQ(peers, (std::vector<int>{1, 1, 2}));
}

TEST(RendezvousTest, ChecksTheLastStepWithoutWorkForTheNext) {
  // Work for the next step separates two groups that would be one without it.
  Plan plan;
  Add(&plan, 0, kSend, 1);
  Add(&plan, 0, Instruction::FROZEN_FORWARD, -1, 1);
  Add(&plan, 0, kRecv, 1);
  Add(&plan, 1, kRecv, 0);
  Add(&plan, 1, kWork);
  Add(&plan, 1, kSend, 0);
  EXPECT_TRUE(CheckRendezvous(plan).ok()) << CheckRendezvous(plan);
}

TEST(RendezvousTest, NamesBothValuesOfAMismatch) {
  Plan plan;
  Add(&plan, 0, kSend, 1);
  Add(&plan, 1, kRecv, 0);
  plan.mutable_devices(0)->mutable_instructions(0)->set_bytes(8);
  plan.mutable_devices(1)->mutable_instructions(0)->set_bytes(4);
  EXPECT_EQ(
      MatchMessages(plan).status().message(),
      "rank 0, instruction 0 (SEND) meets rank 1, instruction 0 (RECV): bytes 8 is sent and 4 "
      "is received");
}

TEST(RendezvousTest, CollectiveWaitsForAllItsRanks) {
  // Rank 0 reduces before its send; rank 1 waits for that message before it reduces.
  Plan plan;
  Stage* stage = plan.add_stages();
  stage->add_ranks(0);
  stage->add_ranks(1);
  Add(&plan, 0, Instruction::REDUCE_GRADS);
  Add(&plan, 0, kSend, 1);
  Add(&plan, 1, kRecv, 0);
  Add(&plan, 1, Instruction::REDUCE_GRADS);
  EXPECT_EQ(CheckRendezvous(plan).message(),
            "deadlock in the steady step: rank 0, instruction 0 (REDUCE_GRADS) waits forever for "
            "other ranks");
  plan.mutable_devices(0)->mutable_instructions()->SwapElements(0, 1);
  EXPECT_TRUE(CheckRendezvous(plan).ok()) << CheckRendezvous(plan);
}

}  // namespace
}  // namespace dpipe
