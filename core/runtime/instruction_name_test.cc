#include "core/runtime/instruction_name.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(InstructionNameTest, NamesTheWorkAndTheAwaitedMessage) {
  Plan plan;
  plan.add_components()->set_name("vae_encoder");
  Instruction recv;
  recv.set_kind(Instruction::RECV);
  recv.set_payload(Instruction::ACTIVATION);
  recv.set_micro_batch(3);
  recv.set_stage(1);
  recv.set_peer_stage(0);
  recv.set_peer(2);
  EXPECT_EQ(InstructionName(plan, recv), "RECV of ACTIVATION of micro-batch 3 from rank 2");
  EXPECT_EQ(AwaitedName(plan, recv, 15),
            "ACTIVATION of micro-batch 3 for stage 1 (RECV, instruction 15)");

  // Backward, from stage 1 to stage 0.
  Instruction send = recv;
  send.set_kind(Instruction::SEND);
  send.set_payload(Instruction::GRADIENT);
  EXPECT_EQ(InstructionName(plan, send), "SEND of GRADIENT of micro-batch 3 to rank 2");
  EXPECT_EQ(AwaitedName(plan, send, 4),
            "GRADIENT of micro-batch 3 for stage 0 (SEND, instruction 4)");

  Instruction frozen = recv;
  frozen.set_payload(Instruction::FROZEN_OUTPUT);
  frozen.mutable_samples()->set_begin(4);
  frozen.mutable_samples()->set_end(8);
  EXPECT_EQ(AwaitedName(plan, frozen, 0),
            "FROZEN_OUTPUT of vae_encoder, samples [4, 8) (RECV, instruction 0)");
  frozen.set_payload(Instruction::FROZEN_VALUES);
  frozen.mutable_layers()->set_begin(2);
  frozen.mutable_layers()->set_end(3);
  EXPECT_EQ(AwaitedName(plan, frozen, 0),
            "FROZEN_VALUES of vae_encoder for layer 2, samples [4, 8) (RECV, instruction 0)");

  Instruction reduce;
  reduce.set_kind(Instruction::REDUCE_GRADS);
  reduce.mutable_layers()->set_end(9);
  EXPECT_EQ(AwaitedName(plan, reduce, 28),
            "REDUCE_GRADS of stage 0, layers [0, 9) (instruction 28)");
}

}  // namespace
}  // namespace dpipe
