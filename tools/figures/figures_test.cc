#include "tools/figures/figures.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/report/results/results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/figures/documents.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kMaxReadmeWords = 900;

constexpr char kPlans[] =
    "$ plan -- --strategy=gpipe --batch=64 --profile=p\n"
    "Pipeline:   4 group(s) of 2 devices, 6 stages, 2 micro-batches of 8\n"
    "Step:       201.30 ms predicted\nBubbles:    1.5 % of device time\n\n"
    "$ plan -- --strategy=gpipe --batch=640 --profile=p\nStep:       3.20 ms predicted\n";

// Two cases; the second is measured without zb-v.
Results TwoCases() {
  Results results;
  for (const double speedup : {1.25, 0.8}) {
    CaseResult* result = results.add_cases();
    result->set_id(absl::StrCat("case", results.cases_size()));
    result->set_state(CaseResult::MEASURED);
    result->set_global_batch(32);
    for (const char* strategy : {"data_parallel", "zero1", "diffusionpipe", "zb-v"}) {
      if (strategy == std::string("zb-v") && speedup < 1) continue;
      StrategyResult* measured = result->add_strategies();
      measured->set_strategy(strategy);
      const double rate = strategy == std::string("data_parallel")   ? 100
                          : strategy == std::string("zero1")         ? 110
                          : strategy == std::string("diffusionpipe") ? 100 * speedup
                                                                     : 90;
      for (int turn = 0; turn < 3; ++turn) measured->add_images_per_second(rate);
      if (strategy != std::string("zb-v")) measured->set_step_ms_predicted(300);
    }
  }
  return results;
}

class FiguresTest : public ::testing::Test {
 protected:
  FiguresTest() : figures_(folder_.path()) {
    EXPECT_TRUE(
        WriteFileAtomically(folder_.path() + "/results.json", report::ResultsToJson(TwoCases()))
            .ok());
    EXPECT_TRUE(WriteFileAtomically(folder_.path() + "/raw.txt", "loss 3\nstep: 201.3 ms\n").ok());
    EXPECT_TRUE(WriteFileAtomically(folder_.path() + "/plans.txt", kPlans).ok());
  }

  std::string Evaluate(const std::string& expression) {
    const absl::StatusOr<std::string> text = figures_.Evaluate(expression);
    return text.ok() ? *text : std::string(text.status().message());
  }

  ScratchFolder folder_;
  Figures figures_;
};

TEST_F(FiguresTest, ValuesOfResults) {
  EXPECT_EQ(Evaluate("rate results.json#case1 diffusionpipe"), "125.0");
  EXPECT_EQ(Evaluate("ratio results.json#case1 diffusionpipe data_parallel"), "1.25x");
  EXPECT_EQ(Evaluate("ratio results.json#case1 diffusionpipe data_parallel,zero1"), "1.14x");
  EXPECT_EQ(Evaluate("range results.json#case1,results.json#case2 diffusionpipe data_parallel"),
            "0.80x to 1.25x");
}

TEST_F(FiguresTest, Tables) {
  EXPECT_EQ(Evaluate("ratios One_way=results.json#case1,results.json#case2 diffusionpipe,zero1 "
                     "data_parallel"),
            "\n\n| strategy | One way | results.json#case2 |\n|---|---:|---:|\n"
            "| `diffusionpipe` | 1.25x | 0.80x |\n| `zero1` | 1.10x | 1.10x |\n\n");
  EXPECT_EQ(Evaluate("runs results.json#case1,results.json#case2 diffusionpipe,zb-v data_parallel"),
            "\n\n| strategy | img/s | vs `data_parallel` [95 %] | in 2 runs |\n"
            "|---|---:|---:|---:|\n"
            "| `diffusionpipe` | 125.0 | 1.25x | 0.80x to 1.25x |\n"
            "| `zb-v` | 90.00 | 0.90x | 0.90x to 0.90x (1) |\n\n");
}

// A step of 32 images takes 256, 400 and 290.9 ms, and 300 ms are predicted.
TEST_F(FiguresTest, PredictionsBesideMeasurements) {
  EXPECT_EQ(Evaluate("predictions One_way=results.json#case1,results.json#case2 "
                     "diffusionpipe,zero1 data_parallel,zero1"),
            "\n\n| strategy | One way | predicted step | results.json#case2 | predicted step |\n"
            "|---|---:|---:|---:|---:|\n"
            "| `diffusionpipe` | 125.0 (1.14) | +17.2 % | 80.00 (0.73) | -25.0 % |\n"
            "| `zero1` | 110.0 (1.00) | +3.1 % | 110.0 (1.00) | +3.1 % |\n\n");
  EXPECT_THAT(Evaluate("predictions results.json#case1 zb-v zero1"),
              HasSubstr("zb-v has no predicted step"));
  EXPECT_THAT(Evaluate("predictions results.json#case2 zb-v zero1"), HasSubstr("not measured"));
}

TEST_F(FiguresTest, ValuesOfOtherFiles) {
  EXPECT_EQ(Evaluate("json results.json /cases/1/strategies/2/images_per_second/0 %.1f"), "80.0");
  EXPECT_EQ(Evaluate("json results.json /cases/0/id %s"), "case1");
  EXPECT_EQ(Evaluate("find raw.txt step: ([0-9.]+) ms"), "201.3");
  EXPECT_EQ(Evaluate("find raw.txt (loss[^~]*201)"), "\n\nloss 3\nstep: 201\n\n");
  EXPECT_EQ(Evaluate("number raw.txt %.2f step: ([0-9.]+) ms"), "201.30");
  EXPECT_EQ(Evaluate("number raw.txt %.1e step: ([0-9.]+) ms"), "2.0e+02");
  EXPECT_THAT(Evaluate("number raw.txt %.2f (step)"), HasSubstr("'step' is not a number"));
  EXPECT_THAT(Evaluate("number raw.txt %s loss (.)"), HasSubstr("does not suit"));
}

TEST_F(FiguresTest, PlansOfTheirArguments) {
  EXPECT_EQ(Evaluate("step plans.txt --strategy=gpipe --batch=64"), "201.30 ms");
  EXPECT_EQ(Evaluate("step plans.txt --strategy=gpipe --batch=640"), "3.20 ms");
  EXPECT_THAT(Evaluate("plans plans.txt gpipe --batch=64"),
              HasSubstr("| `gpipe` | 201.30 ms | 1.5 % | 4 x 2, 6 |"));
  EXPECT_THAT(Evaluate("step plans.txt --strategy=1f1b --batch=64"), HasSubstr("has no plan"));
  EXPECT_THAT(Evaluate("plans plans.txt gpipe --batch=640"), HasSubstr("says nothing like"));
}

TEST_F(FiguresTest, WhatCannotBeComputedIsNamed) {
  EXPECT_THAT(Evaluate("json results.json /cases/7/id %s"), HasSubstr("no value /cases/7/id"));
  EXPECT_THAT(Evaluate("json results.json /cases/0/id %.1f"), HasSubstr("does not suit"));
  EXPECT_THAT(Evaluate("find raw.txt step: [0-9"), Not(HasSubstr("201")));
  EXPECT_THAT(Evaluate("find raw.txt steps: (.*)"), HasSubstr("no match of steps: (.*)"));
  EXPECT_THAT(Evaluate("rate other.json gpipe"), HasSubstr("other.json"));
  EXPECT_THAT(Evaluate("rate results.json gpipe"), AllOf(HasSubstr("case1"), HasSubstr("case2")));
  EXPECT_THAT(Evaluate("ratio results.json#case2 zb-v data_parallel"),
              HasSubstr("zb-v or all of data_parallel were not measured"));
  EXPECT_THAT(Evaluate("guess results.json"), HasSubstr("no such expression"));
  EXPECT_THAT(figures_.Update("a\nb <!--= find raw.txt (x) -->1<!--/-->").status().message(),
              AllOf(HasSubstr("line 2"), HasSubstr("raw.txt has no match")));
  EXPECT_THAT(figures_.Update("<!--= find raw.txt (x) -->1").status().message(),
              HasSubstr("line 1: no <!--/--> ends this figure"));
}

TEST_F(FiguresTest, UpdateChangesFiguresAlone) {
  const std::string text =
      "It takes <!--= find raw.txt step: ([0-9.]+) -->999<!--/--> ms; 999 <!-- a comment -->.\n";
  const absl::StatusOr<std::string> updated = figures_.Update(text);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(*updated, absl::StrReplaceAll(text, {{"-->999<", "-->201.3<"}}));
  EXPECT_EQ(*figures_.Update(*updated), *updated);
  EXPECT_THAT(DifferingLine(text, *updated), HasSubstr("line 1: 'It takes"));
  EXPECT_EQ(DifferingLine(text, text), "");
}

TEST(DocumentsTest, FiguresAreThoseOfTheirRawFiles) {
  Figures figures(".");
  const absl::StatusOr<std::vector<std::string>> documents = FindDocuments(".");
  ASSERT_TRUE(documents.ok()) << documents.status();
  ASSERT_GT(documents->size(), 15u);
  int num_figures = 0;
  for (const std::string& name : *documents) {
    const absl::StatusOr<std::string> text = ReadFile(name);
    ASSERT_TRUE(text.ok()) << text.status();
    for (size_t at = 0; (at = text->find("<!--= ", at)) != std::string::npos; ++at) ++num_figures;
    const absl::StatusOr<std::string> updated = figures.Update(*text);
    ASSERT_TRUE(updated.ok()) << name << ": " << updated.status();
    EXPECT_EQ(DifferingLine(*text, *updated), "")
        << name << ": bazel run //tools/figures:update corrects it";
  }
  EXPECT_GT(num_figures, 10);
}

TEST(DocumentsTest, UntracedFigureIsFound) {
  EXPECT_EQ(UntracedFigure("| 1 | <!--= rate a b -->1.5<!--/--> |\n"), "");
  EXPECT_EQ(UntracedFigure("| 1 | <!--= rate a b -->1.5<!--/--> | 2.5 ms |\n"),
            "line 1: 2.5 is not computed from a raw file");
  EXPECT_THAT(UntracedFigure("one\n\nIt takes 12.25x.\n"), HasSubstr("line 3: 12.25 is not"));
  EXPECT_THAT(UntracedFigure("a\n<!--= rate a b -->\n\n| 1.5 |\n\n<!--/-->\n(1.1e-7)\n"),
              HasSubstr("line 7: 1.1 is not"));
  EXPECT_EQ(UntracedFigure("v2.1, 580.159.04, `CUDA 13.0`, FLUX.1, [a](b/1.5.md) <!-- 1.5 -->\n\n"
                           "    --rate=1.5\n\n```\n1.5\n```\n"),
            "");
}

// Every decimal number of a hand-written README of results stands between markers.
TEST(DocumentsTest, FiguresOfResultsAreTraced) {
  const std::vector<std::string> written_by_programs = {
      "emulation/64_devices/README.md", "emulation/8_and_16_devices/README.md",
      "emulation/paced/README.md",      "emulation/without_host_time/README.md",
      "paper_tables/README.md",         "where_pipelines_pay/README.md",
  };
  const absl::StatusOr<std::vector<std::string>> documents = FindDocuments(".");
  ASSERT_TRUE(documents.ok()) << documents.status();
  int num_checked = 0;
  for (const std::string& name : *documents) {
    absl::string_view in_results = name;
    if (!absl::ConsumePrefix(&in_results, "bench/results/") ||
        !absl::EndsWith(in_results, "README.md") ||
        absl::c_linear_search(written_by_programs, in_results)) {
      continue;
    }
    const absl::StatusOr<std::string> text = ReadFile(name);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(UntracedFigure(*text), "") << name << ": tools/figures/figures.h tells how";
    ++num_checked;
  }
  EXPECT_GT(num_checked, 10);
}

TEST(DocumentsTest, ReadmeIsShort) {
  EXPECT_EQ(CountWords("one two<!-- not these\nwords --> | 3 |---|\n"), 3);
  const absl::StatusOr<std::string> readme = ReadFile("README.md");
  ASSERT_TRUE(readme.ok()) << readme.status();
  EXPECT_LE(CountWords(*readme), kMaxReadmeWords);
}

TEST(DocumentsTest, AnotherFolderIsRefused) {
  ScratchFolder folder;
  EXPECT_THAT(FindDocuments(folder.path()).status().message(), HasSubstr("has no README.md"));
}

}  // namespace
}  // namespace dpipe
