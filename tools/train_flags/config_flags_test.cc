#include "tools/train_flags/config_flags.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/config_field.pb.h"
#include "tools/train_config.pb.h"

namespace dpipe::tools {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status Apply(const std::vector<std::string>& arguments, TrainConfig* config) {
  DPIPE_ASSIGN_OR_RETURN(const auto flags, SplitFlags(arguments, *config));
  for (const ConfigFlag& flag : flags) DPIPE_RETURN_IF_ERROR(ApplyConfigFlag(flag, config));
  return CheckConfig(*config);
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  TrainConfig config;
  return std::string(Apply(arguments, &config).message());
}

TEST(ConfigFlagsTest, PathsAndShortNamesSetTheSameField) {
  for (const char* flag : {"--output.path=/m", "--out=/m", "--output=/m"}) {
    TrainConfig config;
    ASSERT_TRUE(Apply({flag}, &config).ok()) << flag;
    EXPECT_EQ(config.output().path(), "/m") << flag;
  }
  for (const char* flag : {"--optimizer.lr=2e-4", "--lr=2e-4", "-lr=2e-4"}) {
    TrainConfig config;
    ASSERT_TRUE(Apply({flag}, &config).ok());
    EXPECT_EQ(config.optimizer().lr(), 2e-4) << flag;
  }
  TrainConfig config;
  ASSERT_TRUE(Apply({"--steps", "12", "--flip", "--nomean_latents", "--samples=false", "--seed=7",
                     "--evaluation.quantiles=0.25,0.75", "--samples.prompts=a cat|a dog, sitting",
                     "--data=/a=b"},
                    &config)
                  .ok());
  EXPECT_EQ(config.steps(), 12);
  EXPECT_TRUE(config.data().flip());
  EXPECT_FALSE(config.objective().mean_latents());
  EXPECT_FALSE(config.samples().at_end());
  EXPECT_EQ(config.seed(), 7u);
  EXPECT_THAT(config.evaluation().quantiles(), ElementsAre(0.25, 0.75));
  EXPECT_THAT(config.samples().prompts(), ElementsAre("a cat", "a dog, sitting"));
  EXPECT_EQ(config.data().path(), "/a=b");
  EXPECT_THAT(ConfigDifferences(config),
              ElementsAre("data.path=/a=b", "data.flip=true", "seed=7", "steps=12",
                          "objective.mean_latents=false", "evaluation.quantiles=0.25,0.75",
                          "samples.at_end=false", "samples.prompts=a cat|a dog, sitting"));
}

TEST(ConfigFlagsTest, ErrorsNameFlagValueAndAllowedValues) {
  EXPECT_EQ(ErrorOf({"--stepz=3"}), "there is no flag --stepz; did you mean --steps?");
  EXPECT_EQ(ErrorOf({"--optimizer.lrr=3"}),
            "there is no flag --optimizer.lrr; did you mean --optimizer.lr?");
  EXPECT_EQ(ErrorOf({"--setps=3"}), "there is no flag --setps; did you mean --steps?");
  EXPECT_EQ(ErrorOf({"--lora_rank=4"}),
            "there is no flag --lora_rank; did you mean --model.lora_rank?");
  EXPECT_EQ(ErrorOf({"--image_size=64"}),
            "there is no flag --image_size; did you mean --model.image_size?");
  EXPECT_EQ(ErrorOf({"--train_batch_size=4"}),
            "there is no flag --train_batch_size; here it is --global_batch: images per training "
            "step, over all devices and micro-batches");
  EXPECT_EQ(ErrorOf({"--learning_rate=1e-4"}),
            "there is no flag --learning_rate; here it is --lr: peak learning rate of AdamW");
  EXPECT_EQ(ErrorOf({"--qqqq=3"}), "there is no flag --qqqq");
  EXPECT_EQ(ErrorOf({"steps=3"}), "unexpected argument 'steps=3'");
  EXPECT_EQ(ErrorOf({"--steps"}),
            "--steps has no value; it must be a whole number, at least 0 and at most 1000000000");
  EXPECT_EQ(ErrorOf({"--steps=1.5"}),
            "--steps=1.5: '1.5' is not a whole number, at least 0 and at most 1000000000");
  EXPECT_EQ(
      ErrorOf({"--devices=99999999999"}),
      "--devices=99999999999: '99999999999' is not a whole number, at least 0 and at most 1024");
  EXPECT_EQ(ErrorOf({"--seed=-1"}), "--seed=-1: '-1' is not a non-negative whole number");
  EXPECT_EQ(ErrorOf({"--flip=perhaps"}), "--flip=perhaps: 'perhaps' is not true or false");
  EXPECT_EQ(ErrorOf({"--noflip=true"}), "--noflip=true: --noflip takes no value");
  EXPECT_EQ(ErrorOf({"--steps=-1"}),
            "--steps=-1: it must be a whole number, at least 0 and at most 1000000000");
  EXPECT_EQ(ErrorOf({"--steps=1000000001"}),
            "--steps=1000000001: it must be a whole number, at least 0 and at most 1000000000");
  EXPECT_EQ(ErrorOf({"--ema=1"}), "--ema=1: it must be a number, at least 0 and less than 1");
  EXPECT_EQ(ErrorOf({"--lr=nan"}), "--lr=nan: it must be a number, more than 0 and at most 1000");
  EXPECT_EQ(ErrorOf({"--dtype=fp8"}), "--dtype=fp8: it must be one of fp32, bf16");
  for (const char* flag : {"--lr.shape=cosin", "--lr_schedule=cosin"}) {
    EXPECT_EQ(ErrorOf({flag}), std::string(flag) +
                                   ": it must be one of constant, linear, cosine, "
                                   "polynomial, cosine_restarts");
  }
  EXPECT_EQ(ErrorOf({"--evaluation.quantiles=0.5,1"}),
            "--evaluation.quantiles=0.5,1: it must be a number, at least 0 and less than 1");
  EXPECT_EQ(ErrorOf({"--evaluation.quantiles=0.5,half"}),
            "--evaluation.quantiles=0.5,half: 'half' is not a number, at least 0 and less than 1");
}

TEST(ConfigFlagsTest, TextIsMergedAndItsErrorsNameTheLine) {
  TrainConfig config;
  config.set_steps(5);
  config.mutable_evaluation()->add_quantiles(0.1);
  ASSERT_TRUE(MergeConfigText("seed: 9\nevaluation { quantiles: 0.5 quantiles: 0.6 }",
                              "f.textproto", &config)
                  .ok());
  EXPECT_EQ(config.seed(), 9u);
  EXPECT_EQ(config.steps(), 5);
  EXPECT_THAT(config.evaluation().quantiles(), ElementsAre(0.5, 0.6)) << "the whole list";

  const auto error = [](const std::string& text) {
    TrainConfig config;
    return std::string(MergeConfigText(text, "f.textproto", &config).message());
  };
  EXPECT_THAT(
      error("seed: 1\noptimizer { rate: 2 }"),
      HasSubstr("f.textproto:2:17: there is no field rate in OptimizerConfig; it has lr, "));
  EXPECT_THAT(error("stepz: 3"),
              HasSubstr("there is no field stepz in TrainConfig; did you mean steps?"));
  EXPECT_THAT(error("zzz: 3"),
              HasSubstr("it has model, data, strategy, devices, global_batch and "));
  EXPECT_THAT(error("steps: many"), HasSubstr("f.textproto:1:"));
  EXPECT_THAT(error("seed: 1 {"), HasSubstr("f.textproto:1:"));
}

// As written by editors on Windows.
TEST(ConfigFlagsTest, FilesWithByteOrderMarkAndCarriageReturnsAreRead) {
  TrainConfig config;
  const absl::Status status =
      MergeConfigText("\xef\xbb\xbf# a run\r\nsteps: 3\r\nseed: 4\r\n", "f.textproto", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.steps(), 3);
  EXPECT_EQ(config.seed(), 4u);
  const std::string wide(
      "\xff\xfes\0e\0e\0d\0:\0"
      "5\0",
      14);
  ASSERT_TRUE(MergeConfigText(wide, "f.textproto", &config).ok());
  EXPECT_EQ(config.seed(), 5u);
  EXPECT_THAT(std::string(MergeConfigText(wide.substr(2), "f.textproto", &config).message()),
              HasSubstr("f.textproto is binary, or UTF-16"));
}

// A stored configuration reads back as the same run, even if defaults change.
TEST(ConfigFlagsTest, TheWholeConfigRoundTrips) {
  TrainConfig config;
  ASSERT_TRUE(
      Apply({"--lr=3.3e-7", "--samples.prompts=a \"red\" fox|b", "--minutes=0.1"}, &config).ok());
  const std::string text = WholeConfigText(config);
  TrainConfig again;
  ASSERT_TRUE(MergeConfigText(text, "whole", &again).ok());
  EXPECT_EQ(WholeConfigText(again), text);
  EXPECT_EQ(ConfigDifferences(again), ConfigDifferences(config));
  EXPECT_EQ(ConfigValues(again), ConfigValues(config));
  EXPECT_EQ(ConfigValues(config).at("minutes"), "0.1");
  EXPECT_TRUE(again.has_global_batch()) << "defaults are written down";
  EXPECT_TRUE(again.ema().has_decay());
}

TEST(TrainConfigTest, WrongValuesOfAFileAreNamedByTheirField) {
  TrainConfig config;
  ASSERT_TRUE(MergeConfigText("lr { shape: 'cosin' }", "f.textproto", &config).ok());
  EXPECT_EQ(CheckConfig(config).message(),
            "lr.shape=cosin: it must be one of constant, linear, cosine, polynomial, "
            "cosine_restarts");
}

// Every field is documented, every alias is unique, and every default is allowed.
TEST(TrainConfigTest, EveryFieldIsDocumented) {
  const TrainConfig config;
  EXPECT_TRUE(CheckConfig(config).ok()) << CheckConfig(config);
  std::set<std::string> names;
  const std::function<void(const google::protobuf::Descriptor&)> visit =
      [&](const google::protobuf::Descriptor& message) {
        for (int i = 0; i < message.field_count(); ++i) {
          const auto* field = message.field(i);
          if (field->message_type() != nullptr) {
            visit(*field->message_type());
            continue;
          }
          const FieldInfo& about = field->options().GetExtension(info);
          EXPECT_FALSE(about.doc().empty()) << field->full_name();
          for (const std::string& alias : about.alias()) {
            EXPECT_TRUE(names.insert(alias).second) << alias << " is there twice";
          }
        }
      };
  visit(*config.GetDescriptor());
  for (const std::string& path : ConfigPaths(config)) {
    EXPECT_TRUE(names.insert(path).second || path.find('.') == std::string::npos) << path;
    EXPECT_THAT(ConfigHelp(config),
                AnyOf(HasSubstr(absl::StrCat("  --", path)), HasSubstr(absl::StrCat("[--", path))));
  }
}

TEST(ConfigFlagsTest, HelpBeginsWithAboutTenMostUsedFlags) {
  const std::string help = ConfigHelp(TrainConfig());
  const std::vector<std::string> parts = absl::StrSplit(help, absl::MaxSplits("\n\n", 1));
  ASSERT_EQ(parts.size(), 2u);
  std::vector<std::string> first;
  for (const auto line : absl::StrSplit(parts[0], '\n')) {
    if (!absl::StartsWith(line, "  --")) continue;
    const std::string name(line.substr(4, line.find_first_of("= ", 4) - 4));
    first.push_back(name);
    EXPECT_THAT(parts[1], Not(HasSubstr(absl::StrCat("  --", name, "=")))) << "shown again";
    TrainConfig config;
    EXPECT_THAT(std::string(Apply({"--" + name + "=1"}, &config).message()),
                Not(HasSubstr("there is no flag")));
  }
  EXPECT_THAT(first, ElementsAre("model", "model.lora_rank", "data", "strategy", "devices",
                                 "global_batch", "steps", "minutes", "lr", "out", "resume"));
}

}  // namespace
}  // namespace dpipe::tools
