#include "tools/train_flags/train_options.h"

#include <stdlib.h>

#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/train_flags/config_flags.h"

namespace dpipe::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

absl::StatusOr<TrainConfig> Parse(const std::vector<std::string>& arguments) {
  DPIPE_ASSIGN_OR_RETURN(const TrainCommand command, ParseTrainCommand(arguments));
  DPIPE_RETURN_IF_ERROR(CheckTrainConfig(command.config));
  return command.config;
}

std::string ErrorOf(const std::vector<std::string>& arguments) {
  return std::string(Parse(arguments).status().message());
}

void Silent(const std::string&) {}

TEST(TrainOptionsTest, EveryExampleConfigParses) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tools/configs")) {
    if (!absl::EndsWith(entry.path().string(), ".textproto")) continue;
    const auto config = Parse({"--config=" + entry.path().string()});
    EXPECT_TRUE(config.ok()) << config.status();
    EXPECT_THAT(ConfigDifferences(*config), Not(IsEmpty())) << entry.path();
    // Not the built-in data, which would be generated.
    auto with_data = Parse({"--config=" + entry.path().string(), "--data=/pictures"});
    const auto options = OptionsOf(*with_data, Silent);
    EXPECT_TRUE(options.ok()) << entry.path() << ": " << options.status();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(TrainOptionsTest, FlagsOverwriteTheFileInAnyOrder) {
  const std::string path = ::testing::TempDir() + "/c.textproto";
  ASSERT_TRUE(WriteFileAtomically(path, "steps: 5 seed: 3 optimizer { lr: 1e-2 }").ok());
  const auto config = Parse({"--steps=7", "--config=" + path, "--optimizer.lr=1e-3"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->steps(), 7);
  EXPECT_EQ(config->seed(), 3u);
  EXPECT_EQ(config->optimizer().lr(), 1e-3);
}

TEST(TrainOptionsTest, CheckIsOnlyACommandFlag) {
  EXPECT_FALSE(ParseTrainCommand({"--steps=7"})->check);
  const auto command = ParseTrainCommand({"--check", "--steps=7"});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_TRUE(command->check);
  EXPECT_EQ(WholeConfigText(command->config), WholeConfigText(*Parse({"--steps=7"})));
  EXPECT_THAT(ErrorOf({"--check=yes"}), HasSubstr("--check=yes: --check takes no value"));
}

TEST(TrainOptionsTest, FieldsOfFlowMatchingReachTheTrainer) {
  const auto config = Parse({"--timesteps=mode", "--objective.logit_mean=-0.5",
                             "--objective.logit_std=2", "--objective.mode_scale=0.8",
                             "--objective.timestep_shift=3", "--objective.loss_weighting=cosmap"});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto options = OptionsOf(*config, Silent);
  ASSERT_TRUE(options.ok()) << options.status();
  const models::LoadModelOptions& model = options->setup.model;
  EXPECT_EQ(model.flow_density, diffusion::FlowDensity::kMode);
  EXPECT_EQ(model.flow_sampling.logit_mean, -0.5);
  EXPECT_EQ(model.flow_sampling.logit_std, 2);
  EXPECT_EQ(model.flow_sampling.mode_scale, 0.8);
  EXPECT_EQ(model.flow_sampling.shift, 3);
  EXPECT_EQ(model.flow_weight, diffusion::FlowWeight::kCosmap);
  EXPECT_EQ(options->setup.timesteps, diffusion::TimestepSampling::kUniform);
}

TEST(TrainOptionsTest, FieldsReachTheTrainer) {
  const auto config = Parse({"--data=/pictures",
                             "--evaluation.data=/held/out",
                             "--objective.offset_noise=0.05",
                             "--objective.self_conditioning=0.25",
                             "--timesteps=speed",
                             "--objective.zero_terminal_snr=true",
                             "--prediction_type=v_prediction",
                             "--optimizer.moments=int8",
                             "--optimizer.eps=1e-6",
                             "--lr.shape=polynomial",
                             "--lr.power=3",
                             "--lr.warmup=17",
                             "--ema.update_every=4",
                             "--ema.start_step=100",
                             "--dtype=bf16",
                             "--data.max_corrupt=3",
                             "--data.optional_captions",
                             "--data.cache=/cache",
                             "--data.patch_share=0.25",
                             "--out=/out/model/",
                             "--output.mllog",
                             "--evaluation.weights=both",
                             "--minutes=0.5",
                             "--init=checkpoint",
                             "--model.lora_rank=8",
                             "--model.lora_alpha=4",
                             "--model.lora_format=kohya",
                             "--model.lora_targets=attn.to_q,ff.net.2",
                             "--model.max_sequence_length=128",
                             "--model.base_dtype=int8",
                             "--model.frozen_dtype=bf16",
                             "--samples.sampler=dpm++"});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto options = OptionsOf(*config, Silent);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->setup.data.folder, "/pictures");
  EXPECT_EQ(options->setup.data.held_out_folder, "/held/out");
  EXPECT_EQ(options->setup.offset_noise, 0.05);
  EXPECT_EQ(options->setup.timesteps, diffusion::TimestepSampling::kSpeed);
  EXPECT_FALSE(options->setup.model.flow_density.has_value());
  EXPECT_TRUE(options->setup.model.self_conditioning);
  EXPECT_EQ(options->setup.self_conditioning_probability, 0.25);
  EXPECT_EQ(options->setup.model.zero_terminal_snr, true);
  EXPECT_EQ(options->setup.model.lora.rank, 8);
  EXPECT_EQ(options->setup.model.lora.scale, 0.5f);
  EXPECT_EQ(options->setup.model.lora_format, models::LoraFormat::kKohya);
  EXPECT_THAT(options->setup.model.lora.targets, ::testing::ElementsAre("attn.to_q", "ff.net.2"));
  EXPECT_EQ(options->setup.model.max_sequence_length, 128);
  EXPECT_TRUE(options->setup.model.base_storage == ops::WeightStorage::kInt8);
  EXPECT_TRUE(options->setup.model.frozen_storage == ops::WeightStorage::kBf16);
  EXPECT_EQ(options->draw.kind, diffusion::SamplerKind::kDpmSolver);
  EXPECT_EQ(options->setup.model.prediction_type, diffusion::PredictionType::kV);
  EXPECT_EQ(options->setup.data.max_corrupt, 3);
  EXPECT_EQ(options->setup.data.default_caption, "");
  EXPECT_EQ(options->setup.cache_folder, "/cache");
  EXPECT_EQ(options->setup.patch_share, 0.25);
  EXPECT_EQ(options->setup.data.quarantine_path, "/out/model/quarantine.jsonl");
  const AdamWOptions& optimizer = options->setup.optimizer;
  EXPECT_EQ(optimizer.moments, MomentsFormat::kInt8);
  EXPECT_EQ(optimizer.adamw.eps, 1e-6f);
  EXPECT_EQ(optimizer.learning_rate.shape, LrSchedule::Shape::kPolynomial);
  EXPECT_EQ(optimizer.learning_rate.power, 3);
  EXPECT_EQ(optimizer.learning_rate.warmup_steps, 17);
  EXPECT_EQ(optimizer.ema_every, 4);
  EXPECT_EQ(optimizer.ema_start, 100);
  EXPECT_EQ(options->setup.compute_dtype, DType::kBf16);
  EXPECT_EQ(options->out, "/out/model");
  EXPECT_EQ(options->model_out, "/out/model/model");
  EXPECT_EQ(options->mllog_path, "/out/model/mllog.txt");
  EXPECT_EQ(options->tensorboard_folder, "/out/model/tensorboard");
  EXPECT_TRUE(options->evaluate_saved && options->evaluate_trained);
  EXPECT_EQ(options->time_limit_ns, 30 * kNanosPerSecond);
  EXPECT_TRUE(options->sample_prompts.empty());
  ASSERT_EQ(options->evaluation_quantiles.size(), 10u);
  EXPECT_DOUBLE_EQ(options->evaluation_quantiles[0], 0.05);
}

TEST(TrainOptionsTest, InitialWeightsDependOnTheModel) {
  using Weights = models::TrainingSetupOptions::Weights;
  const std::string folder = ::testing::TempDir();
  const auto weights = [](std::vector<std::string> flags) {
    flags.push_back("--data=/pictures");
    const auto options = OptionsOf(*Parse(flags), Silent);
    EXPECT_TRUE(options.ok()) << options.status();
    return options->setup.weights;
  };
  EXPECT_EQ(weights({}), Weights::kRandom);
  EXPECT_EQ(weights({"--model=" + folder}), Weights::kFolderIfAny);
  EXPECT_EQ(weights({"--model=" + folder, "--init=random"}), Weights::kRandom);
  EXPECT_EQ(weights({"--model=" + folder, "--init=checkpoint"}), Weights::kFolder);
  EXPECT_EQ(weights({"--init=checkpoint"}), Weights::kFolder);
  EXPECT_EQ(weights({"--model.lora_rank=4"}), Weights::kFolderIfAny);
}

// Shells leave ~ unexpanded in --flag=~/x, and files contain it.
TEST(TrainOptionsTest, HomeFoldersAreExpandedInEveryPath) {
  ASSERT_EQ(setenv("HOME", "/home/me", 1), 0);
  // job.secret_file is expanded when processes join (train_processes.cc).
  const std::set<std::string> others = {
      "data.caption_column", "data.file_column", "data.default_caption",
      "job.master",          "model.kind",       "model.lora_targets",
      "samples.prompts",     "strategy",         "job.secret_file"};
  std::vector<std::string> flags, paths;
  for (const std::string& field : ConfigTextFields(TrainConfig())) {
    if (others.count(field) > 0) continue;
    paths.push_back(field);
    flags.push_back(absl::StrCat("--", field, "=~/", field));
  }
  EXPECT_THAT(paths, ::testing::IsSupersetOf({"model.path", "data.path", "output.path"}));
  const auto options = OptionsOf(*Parse(flags), Silent);
  ASSERT_TRUE(options.ok()) << options.status();
  const models::TrainingSetupOptions& setup = options->setup;
  const std::set<std::string> all = {
      setup.model_folder,         setup.data.folder,     setup.data.held_out_folder,
      setup.cache_folder,         setup.engines,         options->out,
      options->log_path,          options->profile_path, options->cluster_path,
      options->checkpoints.resume};
  for (const std::string& path : paths) EXPECT_EQ(all.count("/home/me/" + path), 1u) << path;
  const std::string config = ::testing::TempDir() + "/home.textproto";
  ASSERT_TRUE(WriteFileAtomically(config, "data { path: '~/pictures' }").ok());
  EXPECT_EQ(OptionsOf(*Parse({"--config=" + config}), Silent)->setup.data.folder,
            "/home/me/pictures");
  EXPECT_THAT(ErrorOf({"--config=~/none.textproto"}), HasSubstr("/home/me/none.textproto"));
}

TEST(TrainOptionsTest, WarnsThatLaggingWeightsAreNotClipped) {
  const auto options_of = [](std::vector<std::string> flags, std::string* said) {
    flags.push_back("--data=/pictures");
    return OptionsOf(*Parse(flags), [said](const std::string& line) { *said += line; });
  };
  for (const std::string strategy : {"pipedream_stashing", "xpipe", "hetpipe"}) {
    const std::string flag = "--strategy=" + strategy;
    std::string said;
    const auto by_default = options_of({flag}, &said);
    ASSERT_TRUE(by_default.ok()) << by_default.status();
    EXPECT_EQ(by_default->setup.optimizer.max_grad_norm, 0);
    EXPECT_THAT(said, HasSubstr("Warning:  gradients are not clipped: with " + flag));
    const std::string path = ::testing::TempDir() + "/clips.textproto";
    ASSERT_TRUE(WriteFileAtomically(path, "optimizer { max_grad_norm: 0.5 }").ok());
    for (const std::string& asks : {std::string("--max_grad_norm=0.5"), "--config=" + path}) {
      const auto asked_for = options_of({flag, asks}, &said);
      EXPECT_THAT(
          std::string(asked_for.status().message()),
          AllOf(HasSubstr("optimizer.max_grad_norm is 0.5, but with " + flag + " (weights='"),
                HasSubstr("it must be 0"), HasSubstr("use --max_grad_norm=0")));
    }
    said.clear();
    EXPECT_TRUE(options_of({flag, "--max_grad_norm=0"}, &said).ok());
    EXPECT_EQ(said, "");
  }
}

TEST(TrainOptionsTest, OtherStrategiesClip) {
  std::string said;
  const auto say = [&said](const std::string& line) { said += line; };
  const auto by_default = OptionsOf(*Parse({"--strategy=1f1b", "--data=/pictures"}), say);
  ASSERT_TRUE(by_default.ok()) << by_default.status();
  EXPECT_EQ(by_default->setup.optimizer.max_grad_norm, 1);
  const auto asked_for = OptionsOf(*Parse({"--max_grad_norm=0.5", "--data=/pictures"}), say);
  EXPECT_EQ(asked_for->setup.optimizer.max_grad_norm, 0.5);
  EXPECT_EQ(said, "");
}

// A run that is killed and resumed would differ from an undisturbed one.
TEST(TrainOptionsTest, StrategiesWithStateOutsideCheckpointsAreRefused) {
  const auto refusal = [](const std::string& strategy) {
    return ErrorOf({"--strategy=" + strategy, "--data=/pictures"});
  };
  for (const std::string compression : {"l-greco", "cupcake"}) {
    EXPECT_THAT(refusal("data_parallel,compress=" + compression),
                HasSubstr("--strategy=data_parallel,compress=" + compression +
                          ": compressed gradients (compress='" + compression +
                          "') keep a residual that checkpoints do not contain"));
  }
  EXPECT_EQ(refusal("data_parallel,compress=none"), "");
  EXPECT_EQ(refusal("data_parallel"), "");
}

TEST(TrainOptionsTest, NumbersAreFiniteAndTimeHasALimit) {
  EXPECT_THAT(ErrorOf({"--minutes=inf"}), HasSubstr("--minutes=inf: it must be a finite number"));
  EXPECT_THAT(ErrorOf({"--optimizer.lr=1e999"}), HasSubstr("--optimizer.lr="));
  EXPECT_THAT(ErrorOf({"--max_grad_norm=inf"}),
              HasSubstr("--max_grad_norm=inf: it must be a number, at least 0"));
  EXPECT_THAT(ErrorOf({"--minutes=1e30"}),
              HasSubstr("--minutes=1e+30 is more than 5256000, ten years"));
}

TEST(TrainOptionsTest, ImpossibleCombinationsAreNamed) {
  EXPECT_THAT(ErrorOf({"--steps=0", "--minutes=0"}), HasSubstr("--steps=0 and --minutes=0"));
  EXPECT_THAT(ErrorOf({"--model.lora_rank=4"}), IsEmpty());
  EXPECT_THAT(ErrorOf({"--model.lora_rank=4", "--init=random"}),
              HasSubstr("adapts trained weights, but --init=random; leave --init out"));
  EXPECT_THAT(ErrorOf({"--model.lora_format=kohya"}),
              HasSubstr("--model.lora_format=kohya names adapters, but none are trained"));
  EXPECT_THAT(ErrorOf({"--model.lora_targets=attn.to_q"}),
              HasSubstr("--model.lora_targets=attn.to_q names layers to adapt, but no adapters"));
  EXPECT_THAT(ErrorOf({"--evaluation.every=5"}), HasSubstr("needs held-out data"));
  EXPECT_THAT(ErrorOf({"--evaluation.keep_best"}),
              HasSubstr("--evaluation.keep_best needs held-out data"));
  const std::vector<std::string> by_others = {"--evaluation.keep_best", "--evaluation.share=0.1",
                                              "--evaluation.weights=trained"};
  EXPECT_THAT(ErrorOf(by_others), HasSubstr("--ema.decay=0.998, but --evaluation.weights=trained"));
  EXPECT_EQ(ErrorOf({by_others[0], by_others[1], by_others[2], "--ema=0"}), "");
  EXPECT_THAT(ErrorOf({"--evaluation.share=0.1", "--evaluation.data=/x"}), HasSubstr("not both"));
  EXPECT_THAT(ErrorOf({"--global_batch=10", "--micro_batches=4"}),
              HasSubstr("--global_batch=10 does not divide into --micro_batches=4"));
  EXPECT_THAT(ErrorOf({"--profile=/p.textproto"}),
              HasSubstr("--profile=/p.textproto and --cluster=: give both"));
  EXPECT_THAT(ErrorOf({"--config=/no/file"}), HasSubstr("/no/file"));
  EXPECT_THAT(ErrorOf({"--config"}), HasSubstr("--config=FILE"));
}

}  // namespace
}  // namespace dpipe::tools
