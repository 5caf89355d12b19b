#include "core/planner/search/frontier.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

Candidate Make(int num_stages, int devices_per_pipeline, Nanos estimate_ns, int alternative = 0) {
  Candidate candidate;
  candidate.shape.num_stages = num_stages;
  candidate.shape.devices_per_pipeline = devices_per_pipeline;
  candidate.alternative = alternative;
  candidate.estimate_ns = estimate_ns;
  return candidate;
}

void SetCut(Nanos estimate_ns, Candidate* candidate) {
  candidate->state = Candidate::State::kCut;
  candidate->cut_estimate_ns = estimate_ns;
}

TEST(FrontierTest, MinimumExpectedStepIsNextAndLackOfMemoryLast) {
  Candidate a = Make(2, 2, 100), b = Make(4, 4, 90), c = Make(8, 8, 10);
  c.memory_share = 1.5;
  Frontier frontier(8);
  for (Candidate* candidate : {&a, &b, &c}) frontier.Add(candidate);
  EXPECT_EQ(frontier.Next(), &b);
  EXPECT_EQ(frontier.Next(), &a);
  EXPECT_EQ(frontier.Next(), &c);
  EXPECT_EQ(frontier.Next(), nullptr);
}

TEST(FrontierTest, NextByMemoryNeedsTheLeastMemory) {
  Candidate a = Make(2, 2, 100), b = Make(4, 4, 90), c = Make(8, 8, 10);
  a.memory_share = b.memory_share = 0.5;
  c.memory_share = 0.9;
  Frontier frontier(8);
  for (Candidate* candidate : {&a, &b, &c}) frontier.Add(candidate);
  EXPECT_EQ(frontier.NextByMemory(), &b);
  EXPECT_EQ(frontier.NextByMemory(), &a);
  EXPECT_EQ(frontier.NextByMemory(), &c);
  EXPECT_EQ(frontier.NextByMemory(), nullptr);
}

TEST(FrontierTest, TiesGoToTheSmallerShape) {
  Candidate a = Make(4, 4, 100), b = Make(2, 4, 100), c = Make(2, 2, 100);
  Frontier frontier(8);
  for (Candidate* candidate : {&a, &b, &c}) frontier.Add(candidate);
  EXPECT_EQ(frontier.Next(), &c);
  EXPECT_EQ(frontier.Next(), &b);
  EXPECT_EQ(frontier.Next(), &a);
}

TEST(FrontierTest, ErrorsCarryOverToTheSameScheduleWithinOrAcrossNodes) {
  Candidate simulated = Make(2, 2, 100);
  SetCut(120, &simulated);
  Frontier frontier(8);
  frontier.LearnCut(simulated);
  frontier.LearnStep(simulated, 180);
  EXPECT_EQ(frontier.Expected(Make(2, 4, 100)), 180);  // 1.2 times 1.5
  EXPECT_EQ(frontier.Expected(Make(4, 4, 100)), 150);  // another cut, the same schedule
  EXPECT_EQ(frontier.Expected(Make(2, 16, 100)), 100);
  EXPECT_EQ(frontier.Expected(Make(2, 2, 100, /*alternative=*/1)), 100);
  // The minimum error counts: for S, and for unknown kinds.
  Candidate other = Make(2, 16, 100, 1);
  SetCut(100, &other);
  frontier.LearnStep(other, 80);
  EXPECT_EQ(frontier.Expected(Make(2, 2, 100, /*alternative=*/2)), 80);
  SetCut(150, &simulated);
  EXPECT_EQ(frontier.Expected(simulated), 225);
  frontier.LearnStep(simulated, 150);
  EXPECT_EQ(frontier.Expected(simulated), 150);
}

TEST(FrontierTest, WhatIsLearnedReordersWaitingCandidates) {
  Candidate a = Make(2, 2, 100), b = Make(2, 2, 120, /*alternative=*/1), c = Make(4, 4, 110);
  Candidate cut = Make(2, 4, 100), simulated = Make(8, 8, 100, /*alternative=*/1);
  SetCut(130, &cut);
  SetCut(100, &simulated);
  Frontier frontier(8);
  for (Candidate* candidate : {&a, &b, &c}) frontier.Add(candidate);
  frontier.LearnCut(cut);  // a is now expected to take 130
  EXPECT_EQ(frontier.Next(), &c);
  frontier.LearnStep(simulated, 120);  // and b 144
  EXPECT_EQ(frontier.Next(), &a);
  EXPECT_EQ(frontier.Next(), &b);
}

TEST(FrontierTest, EqualPipelinesWithinNodesAreRepeated) {
  Candidate simulated = Make(2, 2, 100);
  SetCut(100, &simulated);
  Frontier frontier(8);
  EXPECT_EQ(frontier.RepresentativeOf(Make(2, 8, 100)), nullptr);
  frontier.LearnOutcome(simulated);
  EXPECT_EQ(frontier.RepresentativeOf(Make(2, 8, 100)), &simulated);
  EXPECT_EQ(frontier.RepresentativeOf(Make(2, 8, 101)), nullptr);
  EXPECT_EQ(frontier.RepresentativeOf(Make(2, 16, 100)), nullptr);
  EXPECT_EQ(frontier.RepresentativeOf(Make(4, 8, 100)), nullptr);
  Candidate recomputing = Make(2, 8, 100);
  recomputing.may_recompute = true;
  EXPECT_EQ(frontier.RepresentativeOf(recomputing), nullptr);
}

TEST(FrontierTest, EqualPipelinesAcrossNodesOfOneDeviceAreRepeated) {
  const Candidate failed = Make(2, 2, 100);
  Frontier frontier(1);
  frontier.LearnOutcome(failed);
  EXPECT_EQ(frontier.RepresentativeOf(Make(2, 16, 100)), &failed);
}

}  // namespace
}  // namespace dpipe
