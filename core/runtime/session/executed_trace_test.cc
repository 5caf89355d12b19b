#include "core/runtime/session/executed_trace.h"

#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Rank 0 sends micro-batches 0 and 1 to rank 1.
Plan TwoRanks() {
  Plan plan;
  for (int rank = 0; rank < 2; ++rank) {
    DeviceProgram* program = plan.add_devices();
    program->set_rank(rank);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      Instruction* message = program->add_instructions();
      message->set_kind(rank == 0 ? Instruction::SEND : Instruction::RECV);
      message->set_payload(Instruction::ACTIVATION);
      message->set_stage(rank);
      message->set_peer_stage(1 - rank);
      message->set_peer(1 - rank);
      message->set_micro_batch(micro_batch);
    }
  }
  return plan;
}

void Add(int rank, int instruction, int step, Nanos start_ns, Nanos end_ns, ProcessRun* records) {
  TraceEvent* event = records->add_events();
  event->set_rank(rank);
  event->set_stream(rank == 0 ? TraceEvent::SEND_STREAM : TraceEvent::RECV_STREAM);
  event->set_step(step);
  event->set_instruction(instruction);
  event->set_start_ns(start_ns);
  event->set_end_ns(end_ns);
}

TEST(ExecutedTraceTest, ReceivesBeginWithTheirSends) {
  ProcessRun records;
  Add(0, 0, 0, 50, 51, &records);
  Add(0, 1, 0, 70, 71, &records);
  Add(0, 0, 1, 300, 301, &records);
  Add(1, 0, 0, 10, 60, &records);    // waited from 10, sent at 50
  Add(1, 1, 0, 80, 80, &records);    // was there already
  Add(1, 0, 1, 200, 290, &records);  // by another clock, sent after its arrival
  Add(1, 1, 1, 310, 320, &records);  // no record of the SEND
  const Trace trace = ExecutedTrace(TwoRanks(), records, {0, 100});
  EXPECT_EQ(trace.source(), Trace::EXECUTED);
  std::vector<std::pair<Nanos, Nanos>> receives;
  Nanos last = 0;
  for (const TraceEvent& event : trace.events()) {
    EXPECT_GE(event.start_ns(), last) << "sorted";
    last = event.start_ns();
    if (event.rank() == 1) receives.push_back({event.start_ns(), event.end_ns()});
  }
  EXPECT_EQ(receives,
            (std::vector<std::pair<Nanos, Nanos>>{{50, 60}, {80, 80}, {290, 290}, {310, 320}}));
}

TEST(ExecutedTraceTest, MemoryOfAllRanksIsSortedByTime) {
  ProcessRun records;
  for (const auto& [rank, time_ns, bytes] :
       {std::tuple(0, 10, 5), std::tuple(0, 30, 6), std::tuple(1, 20, 7)}) {
    MemorySample* sample = records.add_memory();
    sample->set_rank(rank);
    sample->set_time_ns(time_ns);
    sample->set_bytes(bytes);
  }
  records.add_peak_memory_bytes(8);
  records.add_peak_memory_bytes(9);
  const Trace trace = ExecutedTrace(TwoRanks(), records, {0, 100});
  ASSERT_EQ(trace.memory_size(), 3);
  EXPECT_EQ(trace.memory(1).rank(), 1);
  EXPECT_EQ(trace.memory(1).bytes(), 7);
  EXPECT_EQ(trace.peak_memory_bytes(1), 9);
  EXPECT_EQ(trace.step_start_ns(1), 100);
}

}  // namespace
}  // namespace dpipe
