#include "core/report/progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::EndsWith;

ProgressState Measuring(int step) {
  ProgressState state;
  state.phase = "measuring 1f1b";
  state.repeat = 2;
  state.num_repeats = 5;
  state.step = step;
  state.num_steps = 20;
  return state;
}

// A progress line with a clock that the test controls.
class ProgressTest : public ::testing::Test {
 protected:
  Progress::Options MakeOptions(bool is_terminal) {
    Progress::Options options;
    options.title = "bench";
    options.is_terminal = is_terminal;
    options.write = [this](absl::string_view text) { output_.append(text.data(), text.size()); };
    options.clock = [this] { return now_ns_; };
    return options;
  }
  Nanos now_ns_ = 5 * kNanosPerSecond;
  std::string output_;
};

TEST(ProgressTextTest, WholeLine) {
  ProgressState state = Measuring(12);
  state.images_per_second = 142.4;
  state.loss = 0.81234;
  state.fraction_done = 0.75;
  EXPECT_EQ(
      ProgressText("sd_pipeline", state, 102 * kNanosPerSecond),
      "[sd_pipeline] measuring 1f1b repeat 2/5 · step 12/20 · 142 img/s · loss 0.8123 · ETA 34 s");
  state.tail = "1.2 GiB";
  EXPECT_THAT(ProgressText("b", state, 102 * kNanosPerSecond), EndsWith(" · ETA 34 s · 1.2 GiB"));
}

TEST(ProgressTextTest, UnknownPartsAreLeftOut) {
  ProgressState state;
  state.phase = "profiling";
  EXPECT_EQ(ProgressText("b", state, kNanosPerSecond), "[b] profiling");
  state.fraction_done = 0.001;
  EXPECT_EQ(ProgressText("b", state, kNanosPerSecond), "[b] profiling")
      << "too early for an estimate";
  state.fraction_done = 0.5;
  state.images_per_second = 1.234;
  EXPECT_EQ(ProgressText("b", state, 125 * kNanosPerSecond),
            "[b] profiling · 1.23 img/s · ETA 2 min 05 s");
  EXPECT_EQ(ProgressText("b", state, 3780 * kNanosPerSecond),
            "[b] profiling · 1.23 img/s · ETA 1 h 03 min");
}

TEST_F(ProgressTest, TerminalLineIsRedrawnInPlace) {
  Progress progress(MakeOptions(true));
  progress.Update(Measuring(1));
  progress.Update(Measuring(2));  // too soon
  now_ns_ += kNanosPerSecond;
  progress.Update(Measuring(3));
  EXPECT_EQ(output_,
            "\r[bench] measuring 1f1b repeat 2/5 · step 1/20\x1b[K"
            "\r[bench] measuring 1f1b repeat 2/5 · step 3/20\x1b[K");
  output_.clear();
  progress.Message("note");
  EXPECT_EQ(output_, "\r\x1b[Knote\n\r[bench] measuring 1f1b repeat 2/5 · step 3/20\x1b[K");
  output_.clear();
  progress.Finish();
  progress.Finish();
  EXPECT_EQ(output_, "\r\x1b[K");
}

TEST_F(ProgressTest, TerminalLineIsCutToItsWidth) {
  Progress::Options options = MakeOptions(true);
  options.terminal_width = 16;
  Progress progress(options);
  progress.Update(Measuring(1));
  EXPECT_EQ(output_, "\r[bench] measur…\x1b[K") << "15 cells: the last column would wrap";
}

TEST_F(ProgressTest, LogGetsSparseWholeLines) {
  Progress progress(MakeOptions(false));
  for (int step = 1; step <= 20; ++step) {
    progress.Update(Measuring(step));
    now_ns_ += kNanosPerSecond;
  }
  ProgressState next = Measuring(1);
  next.repeat = 3;
  next.detail = "gpipe";
  now_ns_ -= 9 * kNanosPerSecond;  // a second after the last line
  progress.Update(next);           // another repeat or detail does not start a new phase
  next.phase = "checking";
  progress.Update(next);  // another phase is shown at once
  progress.Message("note");
  progress.Finish();
  EXPECT_EQ(output_,
            "[bench] measuring 1f1b repeat 2/5 · step 1/20\n"
            "[bench] measuring 1f1b repeat 2/5 · step 11/20\n"
            "[bench] checking gpipe repeat 3/5 · step 1/20\n"
            "note\n");
}

}  // namespace
}  // namespace dpipe::report
