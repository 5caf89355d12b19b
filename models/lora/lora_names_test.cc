#include "models/lora/lora_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

TEST(LoraNamesTest, NamesOfPeftDiffusersAndKohya) {
  const struct {
    const char* name;
    bool of_text_encoder;
    LoraPart part;
    const char* layer;
  } cases[] = {
      {"unet.mid.attn1.to_q.lora_A.weight", false, LoraPart::kDown, "mid.attn1.to_q"},
      {"mid.attn1.to_out.0.lora_B.weight", false, LoraPart::kUp, "mid.attn1.to_out.0"},
      {"unet.mid.attn1.to_out.0.lora.down.weight", false, LoraPart::kDown, "mid.attn1.to_out.0"},
      {"unet.mid.attn1.to_k.lora.up.weight", false, LoraPart::kUp, "mid.attn1.to_k"},
      {"unet.mid.attn1.processor.to_out_lora.up.weight", false, LoraPart::kUp,
       "mid.attn1.to_out.0"},
      {"mid.attn2.processor.to_v_lora.down.weight", false, LoraPart::kDown, "mid.attn2.to_v"},
      {"unet.mid.attn1.to_q.alpha", false, LoraPart::kAlpha, "mid.attn1.to_q"},
      {"lora_unet_mid_attn1_to_q.lora_down.weight", false, LoraPart::kDown, "mid.attn1.to_q"},
      {"lora_unet_mid_attn1_to_out_0.alpha", false, LoraPart::kAlpha, "mid.attn1.to_out.0"},
      {"text_encoder.text_model.l.0.q_proj.lora_linear_layer.up.weight", true, LoraPart::kUp,
       "text_model.l.0.q_proj"},
      {"text_encoder.text_model.l.0.to_out_lora.down.weight", true, LoraPart::kDown,
       "text_model.l.0.out_proj"},
      {"text_encoder.l.0.q_proj.lora_A.weight", true, LoraPart::kDown, "text_model.l.0.q_proj"},
      {"lora_te_text_model_l_0_q_proj.lora_up.weight", true, LoraPart::kUp,
       "text_model.l.0.q_proj"},
      {"lora_te1_text_model_l_0_out_proj.alpha", true, LoraPart::kAlpha, "text_model.l.0.out_proj"},
  };
  const AdaptableLayers unet(std::set<std::string>{"mid.attn1.to_q", "mid.attn1.to_k",
                                                   "mid.attn1.to_out.0", "mid.attn2.to_v"});
  const AdaptableLayers text_encoder(
      std::set<std::string>{"text_model.l.0.q_proj", "text_model.l.0.out_proj"});
  for (const auto& c : cases) {
    const auto parsed = ParseLoraName(c.name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->of_text_encoder, c.of_text_encoder) << c.name;
    EXPECT_EQ(parsed->part, c.part) << c.name;
    EXPECT_EQ((c.of_text_encoder ? text_encoder : unet).Find(*parsed), c.layer) << c.name;
    EXPECT_EQ((c.of_text_encoder ? unet : text_encoder).Find(*parsed), "") << c.name;
  }
}

TEST(LoraNamesTest, OtherMethodsAreNamed) {
  const struct {
    const char *name, *message;
  } cases[] = {
      {"unet.conv_in.weight", "is not a low-rank adapter of a U-Net or text encoder"},
      {".lora_A.weight", "is not a low-rank adapter"},
      {"", "is not a low-rank adapter"},
      {"lora_unet_a.hada_w1_a", "is of LoHa"},
      {"lora_unet_a.lokr_w1", "is of LoKr"},
      {"lora_unet_a.dora_scale", "is of DoRA"},
      {"lora_unet_a.lora_mid.weight", "is of LoCon with Tucker decomposition"},
      {"lora_te2_text_model_a.lora_up.weight", "is of LoRA for Stable Diffusion XL"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(std::string(ParseLoraName(c.name).status().message()), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace dpipe::models
