#include "models/lora/adapter_config.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

// Python: re.match(rf"(.*\\.)?({pattern})$", layer).
TEST(LayerPatternTest, MatchesAsPythonDoes) {
  const struct {
    const char *pattern, *layer;
    bool matches;
  } cases[] = {
      {"to_q", "mid.attn1.to_q", true},
      {"to_q", "to_q", true},
      {"to_q", "mid.attn1.add_to_q", false},
      {"to_q", "mid.to_q.x", false},
      {"attn1.to_q", "mid.attn1.to_q", true},
      {"attn1.to_q", "mid.attn1xto_q", true},  // a dot matches any character
      {"^mid.attn1.to_q", "mid.attn1.to_q", true},
      {"^attn1.to_q", "mid.attn1.to_q", false},
      {"to_q$", "mid.attn1.to_q", true},
      {"mid.*", "mid.attn1.to_q", true},
      {"mid.*", "down.mid.attn1", true},
      {"mid.*", "xmid.attn1", false},
      {"^mid.*to_[qk]", "mid.attn1.to_k", true},
      {"^mid.*to_[qk]", "mid.attn1.to_v", false},
      {"attn1\\.to_(q|v)", "mid.attn1.to_v", true},
      {"attn1\\.to_(q|v)", "mid.attn1xto_v", false},
      {"down_blocks\\.\\d+\\..*", "down_blocks.12.a", true},
      {"down_blocks\\.\\d+\\..*", "down_blocks.x.a", false},
      {"to_q|to_k", "a.to_k", true},
      {"", "a.", true},
      {"", "a", false},
  };
  for (const auto& c : cases) {
    const auto pattern = LayerPattern::Create(c.pattern);
    ASSERT_TRUE(pattern.ok()) << pattern.status();
    EXPECT_EQ(pattern->Matches(c.layer), c.matches) << c.pattern << " " << c.layer;
  }
}

TEST(LayerPatternTest, ExpensivePatternsAreRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {std::string(201, '*'), "it is longer than 200 characters"},
      {"(a{1000}){1000}", "counted repetitions"},
      {"(?=x)", "groups that begin with (?"},
      {"(a)\\1", "not a supported regular expression"},
      {"(a", "not a supported regular expression"},
      {"[a", "not a supported regular expression"},
      {"*", "not a supported regular expression"},
  };
  for (const auto& [pattern, message] : cases) {
    EXPECT_THAT(std::string(LayerPattern::Create(pattern).status().message()), HasSubstr(message))
        << pattern;
  }
  // Takes exponential time if the matcher backtracks.
  const auto nested = LayerPattern::Create("(((a*)*)*)*b");
  ASSERT_TRUE(nested.ok());
  EXPECT_FALSE(nested->Matches(std::string(200, 'a')));
}

AdapterConfig Parsed(const std::string& text, const std::string& prefix = "") {
  const auto config = AdapterConfig::Parse(text, prefix, "adapter_config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(AdapterConfigTest, ScaleIsAlphaOverRank) {
  const AdapterConfig plain = Parsed(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8})");
  EXPECT_TRUE(plain.has_scale());
  EXPECT_EQ(*plain.ScaleOf("a", 4), 2);
  EXPECT_EQ(*Parsed(R"({"r": 4, "lora_alpha": 8, "use_rslora": true})").ScaleOf("a", 4), 4);
  EXPECT_EQ(*Parsed(R"({"unet.r": 4, "unet.lora_alpha": 1.0})", "unet.").ScaleOf("a", 4), 0.25);
  EXPECT_FALSE(Parsed("{}").has_scale());
  EXPECT_FALSE(Parsed(R"({"unet.r": 4, "unet.lora_alpha": 1})", "text_encoder.").has_scale());
  EXPECT_EQ(*AdapterConfig().ScaleOf("a", 7), 1);
}

TEST(AdapterConfigTest, TheFirstMatchingPatternApplies) {
  const AdapterConfig config = Parsed(R"({"r": 4, "lora_alpha": 8, "use_rslora": true,
      "rank_pattern": {"to_q": 16, "mid.to_q": 9, "^up.*": 1},
      "alpha_pattern": {"zzz.*": 5, "mid.to_q": 12, "mid.*": 3}})");
  EXPECT_EQ(*config.ScaleOf("mid.to_q", 16), 12.0 / 4);
  EXPECT_EQ(*config.ScaleOf("mid.to_k", 4), 3.0 / 2);
  EXPECT_EQ(*config.ScaleOf("up.to_k", 1), 8.0);
  EXPECT_EQ(config.ScaleOf("mid.to_q", 9).status().message(),
            "adapter_config.json sets the rank of mid.to_q to 16, but its tensors have rank "
            "9");
}

TEST(AdapterConfigTest, UnsupportedKeysAreNamed) {
  const struct {
    const char *text, *message;
  } cases[] = {
      {R"([1])", "adapter_config.json: expected a JSON object"},
      {R"({"lora_alpha": 8})", "'lora_alpha' is 8 and 'r' is null"},
      {R"({"lora_alpha": 8, "r": 0})", "'lora_alpha' is 8 and 'r' is 0"},
      {R"({"lora_alpha": 8, "r": -4})", "'lora_alpha' is 8 and 'r' is -4"},
      {R"({"lora_alpha": NaN, "r": 4})", "'r' is 4, expected a number and a positive integer"},
      {R"({"lora_alpha": "x", "r": 4})", "'lora_alpha' is \"x\" and 'r' is 4"},
      {R"({"peft_type": "LOHA"})", "'peft_type' is \"LOHA\", which is not supported; merge"},
      {R"({"use_dora": true})", "'use_dora' is true, which is not supported"},
      {R"({"bias": "all"})", "'bias' is \"all\""},
      {R"({"modules_to_save": ["conv_in"]})", "'modules_to_save' is [\"conv_in\"]"},
      {R"({"init_lora_weights": "pissa_niter_4"})", "'init_lora_weights' is \"pissa_niter_4\""},
      {R"({"r": 4, "lora_alpha": 8, "rank_pattern": [1]})", "'rank_pattern' is [1], expected an"},
      {R"({"r": 4, "lora_alpha": 8, "rank_pattern": {"a": 0.5}})",
       "'rank_pattern' is 0.5 for 'a', expected a positive integer"},
      {R"({"r": 4, "lora_alpha": 8, "alpha_pattern": {"a": "b"}})",
       "'alpha_pattern' is \"b\" for 'a', expected a number"},
      {R"({"r": 4, "lora_alpha": 8, "alpha_pattern": {"(a": 1}})",
       "'alpha_pattern': the pattern '(a': it is not a supported regular expression"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        std::string(AdapterConfig::Parse(c.text, "", "adapter_config.json").status().message()),
        HasSubstr(c.message));
  }
  std::string many;
  for (int i = 0; i < 40; ++i) many += (i > 0 ? ", \"" : "\"") + std::string(i + 1, 'a') + "*\": 1";
  EXPECT_THAT(std::string(AdapterConfig::Parse(
                              R"({"r": 4, "lora_alpha": 8, "alpha_pattern": {)" + many + "}}", "",
                              "adapter_config.json")
                              .status()
                              .message()),
              HasSubstr("'alpha_pattern' has more than 32 regular expressions"));
}

// PEFT writes these values for features that are not used.
TEST(AdapterConfigTest, DisabledFeaturesAreAccepted) {
  EXPECT_TRUE(Parsed(R"({"alora_invocation_tokens": null, "bias": "none", "fan_in_fan_out": false,
      "init_lora_weights": "gaussian", "layer_replication": null, "lora_alpha": 4,
      "lora_bias": false, "modules_to_save": null, "peft_type": "LORA", "r": 2,
      "target_modules": ["to_q"], "use_dora": false, "use_qalora": false, "use_rslora": false,
      "megatron_core": "megatron.core", "rank_pattern": {}, "loftq_config": {}})")
                  .has_scale());
}

}  // namespace
}  // namespace dpipe::models
