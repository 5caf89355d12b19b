#include "models/lora/lora_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

TEST(LoraNamesTest, NamesOfPeftDiffusersAndKohya) {
  using Component = LoraName::Component;
  const struct {
    const char* name;
    Component component;
    LoraPart part;
    const char* layer;
  } cases[] = {
      {"unet.mid.attn1.to_q.lora_A.weight", Component::kUNet, LoraPart::kDown, "mid.attn1.to_q"},
      {"mid.attn1.to_out.0.lora_B.weight", Component::kEither, LoraPart::kUp, "mid.attn1.to_out.0"},
      {"base_model.model.mid.attn1.to_q.lora_B.weight", Component::kEither, LoraPart::kUp,
       "mid.attn1.to_q"},
      {"unet.base_model.model.mid.attn1.to_q.lora_A.weight", Component::kUNet, LoraPart::kDown,
       "mid.attn1.to_q"},
      {"unet.mid.attn1.to_q.lora_A.default.weight", Component::kUNet, LoraPart::kDown,
       "mid.attn1.to_q"},
      {"module._orig_mod.mid.attn1.to_q.lora_B.my_cat.weight", Component::kEither, LoraPart::kUp,
       "mid.attn1.to_q"},
      {"unet.mid.attn1.to_out.0.lora.down.weight", Component::kUNet, LoraPart::kDown,
       "mid.attn1.to_out.0"},
      {"unet.mid.attn1.to_k.lora.up.weight", Component::kUNet, LoraPart::kUp, "mid.attn1.to_k"},
      {"unet.mid.attn1.processor.to_out_lora.up.weight", Component::kUNet, LoraPart::kUp,
       "mid.attn1.to_out.0"},
      {"mid.attn2.processor.to_v_lora.down.weight", Component::kEither, LoraPart::kDown,
       "mid.attn2.to_v"},
      {"unet.mid.attn1.to_q.alpha", Component::kUNet, LoraPart::kAlpha, "mid.attn1.to_q"},
      {"lora_unet_mid_attn1_to_q.lora_down.weight", Component::kUNet, LoraPart::kDown,
       "mid.attn1.to_q"},
      {"lora_unet_mid_attn1_to_out_0.alpha", Component::kUNet, LoraPart::kAlpha,
       "mid.attn1.to_out.0"},
      {"lycoris_mid_attn1_to_out_0.lora_up.weight", Component::kEither, LoraPart::kUp,
       "mid.attn1.to_out.0"},
      {"text_encoder.text_model.l.0.q_proj.lora_linear_layer.up.weight", Component::kTextEncoder,
       LoraPart::kUp, "text_model.l.0.q_proj"},
      {"text_encoder.text_model.l.0.to_out_lora.down.weight", Component::kTextEncoder,
       LoraPart::kDown, "text_model.l.0.out_proj"},
      {"text_encoder.l.0.q_proj.lora_A.weight", Component::kTextEncoder, LoraPart::kDown,
       "text_model.l.0.q_proj"},
      {"base_model.model.text_model.l.0.q_proj.lora_A.weight", Component::kEither, LoraPart::kDown,
       "text_model.l.0.q_proj"},
      {"base_model.model.l.0.q_proj.lora_A.weight", Component::kEither, LoraPart::kDown,
       "text_model.l.0.q_proj"},
      {"lora_te_text_model_l_0_q_proj.lora_up.weight", Component::kTextEncoder, LoraPart::kUp,
       "text_model.l.0.q_proj"},
      {"lora_te_l_0_q_proj.lora_up.weight", Component::kTextEncoder, LoraPart::kUp,
       "text_model.l.0.q_proj"},
      {"lora_te1_l_0_q_proj.lora_down.weight", Component::kTextEncoder, LoraPart::kDown,
       "text_model.l.0.q_proj"},
      {"lora_te1_text_model_l_0_out_proj.alpha", Component::kTextEncoder, LoraPart::kAlpha,
       "text_model.l.0.out_proj"},
      {"text_encoder_2.text_model.l.0.q_proj.lora_B.weight", Component::kTextEncoder2,
       LoraPart::kUp, "text_model.l.0.q_proj"},
      {"lora_te2_text_model_l_0_q_proj.lora_up.weight", Component::kTextEncoder2, LoraPart::kUp,
       "text_model.l.0.q_proj"},
      {"lycoris_text_model_l_0_q_proj.alpha", Component::kEither, LoraPart::kAlpha,
       "text_model.l.0.q_proj"},
  };
  const AdaptableLayers unet(std::set<std::string>{"mid.attn1.to_q", "mid.attn1.to_k",
                                                   "mid.attn1.to_out.0", "mid.attn2.to_v"});
  const AdaptableLayers text_encoder(
      std::set<std::string>{"text_model.l.0.q_proj", "text_model.l.0.out_proj"});
  for (const auto& c : cases) {
    const auto parsed = ParseLoraName(c.name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    ASSERT_TRUE(parsed->has_value()) << c.name;
    EXPECT_EQ((*parsed)->component, c.component) << c.name;
    EXPECT_EQ((*parsed)->part, c.part) << c.name;
    const bool of_text_encoder = std::string(c.layer).find("text_model") == 0;
    EXPECT_EQ((of_text_encoder ? text_encoder : unet).Find(**parsed), c.layer) << c.name;
    EXPECT_EQ((of_text_encoder ? unet : text_encoder).Find(**parsed), "") << c.name;
  }
}

TEST(LoraNamesTest, OtherMethodsAreNamed) {
  const struct {
    const char *name, *message;
  } cases[] = {
      {"lora_unet_a.hada_w1_a", "belongs to LoHa"},
      {"lora_unet_a.lokr_w1", "belongs to LoKr"},
      {"lora_unet_a.dora_scale", "belongs to DoRA"},
      {"base_model.model.a.lora_magnitude_vector.weight", "belongs to DoRA"},
      {"lora_unet_a.lora_mid.weight", "belongs to LoCon with Tucker decomposition"},
      {"lora_unet_a.diff", "belongs to LyCORIS with whole weights"},
      {"lora_unet_a.diff_b", "belongs to LyCORIS with whole weights"},
      {"lora_unet_a.w_norm", "belongs to LyCORIS with norms"},
      {"lycoris_a.oft_blocks", "belongs to OFT"},
      {"base_model.model.a.lora_embedding_A", "belongs to LoRA of embeddings"},
      {"unet.a.lora_B.bias", "belongs to LoRA with biases"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(std::string(ParseLoraName(c.name).status().message()), HasSubstr(c.message));
  }
}

TEST(LoraNamesTest, OtherNamesAreIgnored) {
  for (const char* name :
       {"", ".lora_A.weight", "unet.conv_in.weight", "bundle_emb.cat.string_to_param.*",
        "emb_params", "model.diffusion_model.input_blocks.0.0.weight", "unet.lora_A",
        "lora_unet_.lora_up.weight"}) {
    const auto parsed = ParseLoraName(name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_FALSE(parsed->has_value()) << name;
  }
}

TEST(LoraNamesTest, RecognizesWholeWeights) {
  const AdaptableLayers text_encoder(std::set<std::string>{"text_model.e.0.fc1"});
  for (const char* name : {"text_encoder.text_model.e.0.fc1.weight", "text_model.e.0.fc1.bias",
                           "base_model.model.e.0.fc1.weight"}) {
    EXPECT_TRUE(text_encoder.HasParameter(WithoutLoraPrefixes(name))) << name;
  }
  for (const char* name : {"e.0.fc1", "e.1.fc1.weight", "e.0.fc1.base_layer.weight", "weight"}) {
    EXPECT_FALSE(text_encoder.HasParameter(WithoutLoraPrefixes(name))) << name;
  }
  EXPECT_EQ(KohyaLayerName("mid_block.attentions.0.to_out.0"),
            "lora_unet_mid_block_attentions_0_to_out_0");
}

}  // namespace
}  // namespace dpipe::models
