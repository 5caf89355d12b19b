#include "tools/planning/simulation_text.h"

#include <string>

#include "core/cost/testing/fake_profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using report::TraceIndex;
using ::testing::HasSubstr;

// Appends an event and its instruction to those of its rank.
TraceEvent* Add(int rank, TraceEvent::Stream stream, Instruction::Kind kind, int start_ms,
                int end_ms, Trace* trace) {
  while (trace->plan().devices_size() <= rank) {
    trace->mutable_plan()->add_devices()->set_rank(trace->plan().devices_size() - 1);
  }
  DeviceProgram* program = trace->mutable_plan()->mutable_devices(rank);
  TraceEvent* event = trace->add_events();
  event->set_rank(rank);
  event->set_stream(stream);
  event->set_instruction(program->instructions_size());
  event->set_start_ns(start_ms * kNanosPerMilli);
  event->set_end_ns(end_ms * kNanosPerMilli);
  program->add_instructions()->set_kind(kind);
  return event;
}

Instruction* LastOf(int rank, Trace* trace) {
  DeviceProgram* program = trace->mutable_plan()->mutable_devices(rank);
  return program->mutable_instructions(program->instructions_size() - 1);
}

// One step of 10 ms: rank 0 computes for 3 ms and sends for 2 ms; rank 1 computes for 4 ms and its
// optimizer steps for 1 ms.
class SimulationTextTest : public ::testing::Test {
 protected:
  SimulationTextTest() : cost_(*CostModel::Create(UniformProfile(), TwoNodes())) {
    for (int rank : {0, 1}) {
      Stage* stage = trace_.mutable_plan()->add_stages();
      stage->set_id(rank);
      stage->add_ranks(rank);
    }
    trace_.mutable_plan()->add_components();
    Add(0, TraceEvent::COMPUTE, Instruction::FORWARD, 0, 3, &trace_);
    Add(0, TraceEvent::SEND_STREAM, Instruction::SEND, 3, 5, &trace_);
    LastOf(0, &trace_)->set_peer(1);
    LastOf(0, &trace_)->set_bytes(3 << 20);
    Add(1, TraceEvent::RECV_STREAM, Instruction::RECV, 3, 5, &trace_);
    LastOf(1, &trace_)->set_peer(0);
    Add(1, TraceEvent::COMPUTE, Instruction::BACKWARD, 5, 9, &trace_);
    Add(1, TraceEvent::COMPUTE, Instruction::OPTIMIZER_STEP, 9, 10, &trace_);
    trace_.add_step_start_ns(0);
    trace_.add_step_start_ns(10 * kNanosPerMilli);
    trace_.add_peak_memory_bytes(5 << 20);
    trace_.add_peak_memory_bytes(7 << 20);
  }

  static ClusterSpec TwoNodes() {
    ClusterSpec cluster = IdealCluster(1);
    cluster.set_num_nodes(2);
    *cluster.mutable_inter_node() = cluster.intra_node();
    return cluster;
  }

  const CostModel cost_;
  Trace trace_;
};

TEST(RanksTextTest, RangesAreJoinedAndManyAreCounted) {
  EXPECT_EQ(RanksText({}), "");
  EXPECT_EQ(RanksText({3}), "3");
  EXPECT_EQ(RanksText({0, 1, 2, 3, 8, 10, 11}), "0-3, 8, 10-11");
  EXPECT_EQ(RanksText({0, 2, 4, 6}), "0, 2, 4, 6");
  EXPECT_EQ(RanksText({0, 2, 4, 6, 8, 9}), "0, 2, 4, ... (6)");
}

TEST_F(SimulationTextTest, DeviceTableSplitsTimeByReason) {
  const std::string text = DeviceTable(*TraceIndex::Create(trace_), cost_);
  EXPECT_THAT(text, HasSubstr("\n0       0       30.0 %"));
  EXPECT_THAT(text, HasSubstr("\n1       1       50.0 %"));
  EXPECT_THAT(text, HasSubstr("5.0 MiB  -\n"));
}

TEST_F(SimulationTextTest, EqualDevicesAreOneRow) {
  Trace same;
  for (int rank : {0, 1}) {
    Add(rank, TraceEvent::COMPUTE, Instruction::FORWARD, 0, 1, &same);
    same.add_peak_memory_bytes(1);
  }
  same.add_step_start_ns(0);
  same.add_step_start_ns(kNanosPerMilli);
  EXPECT_THAT(DeviceTable(*TraceIndex::Create(same), cost_), HasSubstr("\n0-1"));
}

TEST_F(SimulationTextTest, TheCriticalPathIsSummedByWorkAndDevice) {
  EXPECT_EQ(CriticalPathTable(*TraceIndex::Create(trace_), 8), "");
  // Rank 0's forward pass, the message at the receiver, and rank 1's passes, with 1 ms of waiting
  // before the last.
  for (int event : {0, 2, 3, 4}) trace_.add_critical_path()->set_event(event);
  trace_.mutable_critical_path(3)->set_wait_ns(kNanosPerMilli);
  const TraceIndex index = *TraceIndex::Create(trace_);
  EXPECT_EQ(CriticalPathTable(index, 8),
            "on the critical path     events     time   share\n"
            "-----------------------  ------  -------  ------\n"
            "backward on device 1          1  4.00 ms  36.4 %\n"
            "forward on device 0           1  3.00 ms  27.3 %\n"
            "message on device 1           1  2.00 ms  18.2 %\n"
            "global norm and flushes       1  1.00 ms   9.1 %\n"
            "optimizer on device 1         1  1.00 ms   9.1 %\n");
  EXPECT_THAT(CriticalPathTable(index, 2), HasSubstr("the rest                   3  4.00 ms"));
}

TEST_F(SimulationTextTest, TrafficTableHasLinksAndInterfacesBetweenNodes) {
  EXPECT_EQ(TrafficTable(*TraceIndex::Create(trace_), cost_, 8),
            "traffic per step            messages    bytes     busy  share of step\n"
            "--------------------------  --------  -------  -------  -------------\n"
            "link 0 -> 1                        1  3.0 MiB  2.00 ms         20.0 %\n"
            "interface 0 out (messages)         1  3.0 MiB  2.00 ms         20.0 %\n"
            "interface 1 in (messages)          1  3.0 MiB  2.00 ms         20.0 %\n");
}

}  // namespace
}  // namespace dpipe::tools
