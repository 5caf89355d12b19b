// Import and export of torch.distributed.pipelining schedule files. [interop.md]
#include "core/schedule/file_formats/torch_csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::string ErrorOf(const std::string& text) {
  return std::string(ScheduleFromTorchCsv("test", text).status().message());
}

std::string Read(const std::string& name) {
  const auto text = ReadFile("core/schedule/file_formats/testdata/" + name);
  EXPECT_TRUE(text.ok()) << text.status();
  return *text;
}

void ExpectSame(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.chains(), b.chains()) << a.name();
  ASSERT_EQ(a.num_devices(), b.num_devices());
  for (int d = 0; d < a.num_devices(); ++d) EXPECT_EQ(a.slots(d), b.slots(d)) << a.name();
}

TEST(TorchCsvTest, ReadsComputeOnlyWithIdleCells) {
  const auto schedule = ScheduleFromTorchCsv("test", "0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->ToString(), "F0 F1 B0 B1\nF0 B0 F1 B1\n");
  ExpectSame(*schedule, *ScheduleFromTorchCsv("test", "0F0, 0F1,0B0,0B1 \n1F0,1B0,1F1,1B1"));
}

TEST(TorchCsvTest, ReadsOverlapsOneAfterTheOther) {
  const auto schedule = ScheduleFromTorchCsv("test", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const auto overlap =
      ScheduleFromTorchCsv("test", "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,(1B0;1F1)OVERLAP_F_B,1B1\n");
  ASSERT_TRUE(overlap.ok()) << overlap.status();
  ExpectSame(*schedule, *overlap);
}

TEST(TorchCsvTest, ReadsOlderNames) {
  // Older files: B is the input gradient, and BW is the joint backward pass.
  const auto older = ScheduleFromTorchCsv("test", "0F0,0F1,0BW0,0B1,0W1\n");
  ASSERT_TRUE(older.ok()) << older.status();
  ExpectSame(*older, *ScheduleFromTorchCsv("test", "0F0,0F1,0B0,0I1,0W1\n"));
  ExpectSame(*ScheduleFromTorchCsv("test", "0F0,0B0,0W0\n"),
             *ScheduleFromTorchCsv("test", "0F0,0I0,0W0\n"));
  EXPECT_EQ(ErrorOf("0F0,0F1,0BW0,0I1,0W1\n"),
            "row 1 (rank 0), column 3 ('0BW0'): BW is an older name, but row 1, column 4 has I, "
            "which is a newer name");
}

constexpr char kMessages[] =
    "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0WAIT_SEND_F0,0W0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
    "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_SEND_B0,1RESHARD\n";

std::string ErrorAfter(const std::string& from, const std::string& to) {
  const std::string text = absl::StrReplaceAll(kMessages, {{from, to}});
  EXPECT_NE(text, kMessages);
  return ErrorOf(text);
}

TEST(TorchCsvTest, ReadsMessagesAndDropsSharding) {
  const auto schedule = ScheduleFromTorchCsv("test", kMessages);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->ToString(), "F0 I0 W0\nF0 B0\n");
}

TEST(TorchCsvTest, RejectsWrongMessages) {
  EXPECT_EQ(ErrorAfter("1RECV_F0,1F0", "1F0"),
            "row 1 (rank 0), column 3 ('0SEND_F0'): there is no 1RECV_F0");
  EXPECT_EQ(ErrorAfter("0SEND_F0,0R", "0R"),
            "row 1 (rank 0), column 2 ('0F0'): there is no 0SEND_F0");
  EXPECT_EQ(
      ErrorAfter("0F0,0SEND_F0", "0SEND_F0,0F0"),
      "row 1 (rank 0), column 2 ('0SEND_F0'): the pass that makes its data does not precede it");
  EXPECT_EQ(ErrorAfter("1RECV_F0,1F0", "1F0,1RECV_F0"),
            "row 2 (rank 1), column 3 ('1RECV_F0'): the pass that needs its data does not follow "
            "it");
  EXPECT_EQ(ErrorAfter("1SEND_B0", "1SEND_F0"),
            "row 1 (rank 0), column 4 ('0RECV_B0'): there is no 1SEND_B0");
  EXPECT_EQ(
      ErrorAfter("0RECV_B0", "0RECV_F0"),
      "row 1 (rank 0), column 4 ('0RECV_F0'): there is no stage -1 on another rank to receive "
      "from");
  EXPECT_EQ(ErrorAfter(",0WAIT_SEND_F0", ""),
            "row 1 (rank 0), column 3 ('0SEND_F0'): the file has waits for sends, but no "
            "0WAIT_SEND_F0");
  EXPECT_EQ(ErrorAfter("0SEND_F0,", "0WAIT_SEND_F1,0SEND_F0,"),
            "row 1 (rank 0), column 3 ('0WAIT_SEND_F1'): there are micro-batches up to 1, but no "
            "0F1");
  EXPECT_EQ(ErrorOf("0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                    "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"),
            "row 2 (rank 1), column 1 ('1RECV_F1'): it is receive 1 from rank 0, whose send 1 to "
            "rank 1 is 0SEND_F0");
  // Stages 1 and 2 share a rank, so nothing is sent between them.
  EXPECT_EQ(
      ErrorOf("0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0\n"
              "1RECV_F0,1F0,1SEND_F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n"),
      "row 2 (rank 1), column 3 ('1SEND_F0'): there is no stage 2 on another rank to send to");
}

TEST(TorchCsvTest, RejectsWrongSharding) {
  EXPECT_EQ(ErrorAfter("0UNSHARD,0F0", "0F0,0UNSHARD"),
            "row 1 (rank 0), column 1 ('0F0'): stage 0 is sharded");
  EXPECT_EQ(ErrorAfter("1UNSHARD,", "1UNSHARD,1UNSHARD,"),
            "row 2 (rank 1), column 2 ('1UNSHARD'): the stage is already unsharded");
  EXPECT_EQ(ErrorAfter("1UNSHARD,", ""),
            "row 2 (rank 1), column 7 ('1RESHARD'): the stage is not unsharded");
  EXPECT_EQ(ErrorAfter("0W0,0REDUCE_GRAD", "0REDUCE_GRAD,0W0"),
            "row 1 (rank 0), column 7 ('0REDUCE_GRAD'): it comes before 0W0");
  EXPECT_EQ(ErrorAfter("0REDUCE_GRAD,0WAIT", "0WAIT"),
            "row 1 (rank 0), column 8 ('0WAIT_REDUCE_GRAD'): there is no 0REDUCE_GRAD before it");
  EXPECT_EQ(ErrorAfter("1REDUCE_GRAD", "1REDUCE_GRAD,1REDUCE_GRAD"),
            "row 2 (rank 1), column 7 ('1REDUCE_GRAD'): the same action is in column 6");
}

TEST(TorchCsvTest, RejectsMalformedCells) {
  EXPECT_EQ(ErrorOf("0F0,0B0x\n"),
            "row 1 (rank 0), column 2 ('0B0x'): 'x' follows the end of the action");
  EXPECT_EQ(ErrorOf("0F0,0Q0\n"), "row 1 (rank 0), column 2 ('0Q0'): 'Q' is not a type of action");
  EXPECT_EQ(ErrorOf("F0\n"), "row 1 (rank 0), column 1 ('F0'): there is no stage before the type");
  EXPECT_EQ(ErrorOf("0F\n"),
            "row 1 (rank 0), column 1 ('0F'): there is no micro-batch after the type");
  EXPECT_EQ(ErrorOf("00F0\n"),
            "row 1 (rank 0), column 1 ('00F0'): the stage before the type begins "
            "with a zero");
  EXPECT_EQ(
      ErrorOf("0F1000000\n"),
      "row 1 (rank 0), column 1 ('0F1000000'): the micro-batch after the type is above 999999");
  EXPECT_EQ(ErrorOf("0UNSHARD0\n"),
            "row 1 (rank 0), column 1 ('0UNSHARD0'): '0' follows the end of the action");
  EXPECT_EQ(ErrorOf("0F0,\"0B0\"\n"),
            "row 1 (rank 0), column 2 ('\\\"0B0\\\"'): there is no stage before the type");
  EXPECT_EQ(ErrorOf("(0F0;0B0\n"),
            "row 1 (rank 0), column 1 ('(0F0;0B0'): a cell that begins with '(' must end in "
            "')OVERLAP_F_B'");
  EXPECT_EQ(ErrorOf("(0F0)OVERLAP_F_B\n"),
            "row 1 (rank 0), column 1 ('(0F0)OVERLAP_F_B'): an overlap must have 2 actions, not 1");
  EXPECT_EQ(ErrorOf("(0F0;0F1)OVERLAP_F_B\n"),
            "row 1 (rank 0), column 1 ('(0F0;0F1)OVERLAP_F_B'): an overlap must have a forward and "
            "a backward pass");
  EXPECT_EQ(ErrorOf("0F0,0B0\n\n"), "row 2 (rank 1), columns 1 to 1: the rank has no actions");
  EXPECT_EQ(ErrorOf(""), "row 1 (rank 0), columns 1 to 1: the rank has no actions");
  EXPECT_EQ(ErrorOf("0UNSHARD\n"), "row 1 (rank 0), column 1 ('0UNSHARD'): the file has no passes");
}

TEST(TorchCsvTest, RejectsInvalidSchedules) {
  EXPECT_EQ(ErrorOf("0F0,0F0,0B0\n"),
            "row 1 (rank 0), column 2 ('0F0'): the same action is in column 1");
  EXPECT_EQ(ErrorOf("0F0,1F0\n1B0,0B0\n"),
            "row 2 (rank 1), column 1 ('1B0'): stage 1 is also on rank 0 (row 1, column 2)");
  EXPECT_EQ(ErrorOf("0F0,0B0\n2F0,2B0\n"),
            "row 2 (rank 1), column 1 ('2F0'): there is a stage 2 but no stage 1");
  EXPECT_EQ(ErrorOf("0F0,0B0,0F2,0B2\n"),
            "row 1 (rank 0), column 3 ('0F2'): there are micro-batches up to 2, but no 0F1");
  EXPECT_EQ(ErrorOf("0F0,0F1,0B0\n"),
            "row 1 (rank 0), column 2 ('0F1'): there is no backward pass, neither 0B1 nor 0I1");
  EXPECT_EQ(ErrorOf("0F0,0I0\n"), "row 1 (rank 0), column 2 ('0I0'): there is no 0W0");
  EXPECT_EQ(ErrorOf("0F0,0W0,0I0\n"),
            "row 1 (rank 0), column 2 ('0W0'): there is no 0I0 before it");
  EXPECT_EQ(ErrorOf("0B0,0F0\n"), "row 1 (rank 0), column 1 ('0B0'): there is no 0F0 before it");
  EXPECT_EQ(ErrorOf("0F0,0B0,0I0,0W0\n"), "row 1 (rank 0), column 2 ('0B0'): there is also 0I0");
  EXPECT_EQ(
      ErrorOf("0F0,0F1,0B1,0B0\n"),
      "row 1 (rank 0), column 3 ('0B1'): weight gradients of a stage must come in micro-batch "
      "order, but 0 is next");
  EXPECT_EQ(ErrorOf("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
            "row 1 (rank 0), column 2 ('0B0'): it waits for a pass that never runs in this order");
}

// Written by torch (testdata/README.md).
TEST(TorchCsvTest, ReadsFilesWrittenByTorch) {
  for (const char* name :
       {"Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    const auto compute = ScheduleFromTorchCsv(name, Read(absl::StrCat("torch_", name, ".csv")));
    ASSERT_TRUE(compute.ok()) << name << ": " << compute.status();
    const auto comms = ScheduleFromTorchCsv(name, Read(absl::StrCat("torch_", name, "_comms.csv")));
    ASSERT_TRUE(comms.ok()) << name << ": " << comms.status();
    EXPECT_EQ(compute->num_devices(), 4);
    EXPECT_EQ(compute->num_stages(), 8);
    EXPECT_EQ(compute->num_micro_batches(), 8);
    ExpectSame(*compute, *comms);
  }
}

TEST(TorchCsvTest, InterleavedMatchesTorch) {
  ScheduleRequest request{4, 8};
  request.stages_per_device = 2;
  ExpectSame(*MakeSchedule("interleaved", request),
             *ScheduleFromTorchCsv("x", Read("torch_Interleaved1F1B.csv")));
}

TEST(TorchCsvTest, RejectsReverseOrderOfTorch) {
  EXPECT_EQ(ErrorOf(Read("torch_LoopedBFS.csv")),
            "row 1 (rank 0), column 15 ('4B3'): weight gradients of a stage must come in "
            "micro-batch order, but 0 is next");
}

TEST(TorchCsvTest, WritesByHand) {
  const Schedule schedule = *MakeSchedule("1f1b", {2, 2});
  EXPECT_EQ(*TorchCsvFromSchedule(schedule, {}), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  TorchCsvOptions options;
  options.mode = TorchCsvMode::kWithCommunication;
  EXPECT_EQ(*TorchCsvFromSchedule(schedule, options),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
  options.send_waits = true;
  EXPECT_EQ(*TorchCsvFromSchedule(schedule, options),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
}

// Golden files that torch has loaded (testdata/README.md).
TEST(TorchCsvTest, MatchesFilesThatTorchLoaded) {
  EXPECT_EQ(*TorchCsvFromSchedule(*MakeSchedule("interleaved", {4, 8}), {}),
            Read("our_interleaved.csv"));
  TorchCsvOptions options;
  options.mode = TorchCsvMode::kWithCommunication;
  options.send_waits = true;
  EXPECT_EQ(*TorchCsvFromSchedule(*MakeSchedule("interleaved", {4, 8}), options),
            Read("our_interleaved_comms.csv"));
  EXPECT_EQ(*TorchCsvFromSchedule(*MakeSchedule("zb-h1", {4, 8}), options),
            Read("our_zb-h1_comms.csv"));
}

TEST(TorchCsvTest, EveryGeneratorRoundTripsOrIsRejected) {
  int num_round_trips = 0;
  for (const std::string& name : ScheduleNames()) {
    for (int p : {1, 2, 4, 6}) {
      for (int m : {p, 2 * p, 4 * p}) {
        const auto schedule = MakeSchedule(name, {p, m});
        if (!schedule.ok()) continue;
        for (int kind = 0; kind < 3; ++kind) {
          TorchCsvOptions options;
          if (kind > 0) options.mode = TorchCsvMode::kWithCommunication;
          options.send_waits = kind == 2;
          const auto text = TorchCsvFromSchedule(*schedule, options);
          EXPECT_EQ(text.ok(), schedule->chains().size() == 1) << name << ": " << text.status();
          if (!text.ok()) continue;
          const auto back = ScheduleFromTorchCsv(name, *text);
          ASSERT_TRUE(back.ok()) << name << ": " << back.status() << "\n" << *text;
          ExpectSame(*schedule, *back);
          ++num_round_trips;
        }
      }
    }
  }
  EXPECT_GT(num_round_trips, 200);
}

TEST(TorchCsvTest, RejectsSchedulesThatTheFormatCannotExpress) {
  ScheduleRequest request{2, 2};
  request.self_conditioning = true;
  EXPECT_EQ(TorchCsvFromSchedule(*MakeSchedule("1f1b", request), {}).status().message(),
            "schedule 1f1b as a torch schedule file: 2 of its stages are forward-only, but the "
            "format requires a backward pass for every forward pass");
  std::vector<ScheduleChain> chains(2);
  for (ScheduleChain& chain : chains) chain.devices = {0};
  const std::vector<std::vector<Slot>> slots = {{{Pass::kForward, 0, 0},
                                                 {Pass::kBackward, 0, 0},
                                                 {Pass::kForward, 0, 1},
                                                 {Pass::kBackward, 0, 1}}};
  EXPECT_EQ(TorchCsvFromSchedule(*Schedule::Create("twins", chains, slots), {}).status().message(),
            "schedule twins as a torch schedule file: it has 2 chains of one backbone, but the "
            "format cannot express a stage on two ranks");
  chains[1].backbone = 1;
  EXPECT_EQ(TorchCsvFromSchedule(*Schedule::Create("both", chains, slots), {}).status().message(),
            "schedule both as a torch schedule file: it has 2 chains of several backbones, but the "
            "format has only one chain");
}

}  // namespace
}  // namespace dpipe
