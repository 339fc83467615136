"""The algorithms by the name that a run file uses. A new one is a file of its own and a line in `ALGORITHMS`."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from groupwise.algorithms.base import AlgorithmSettings
from groupwise.algorithms.cispo import CISPO
from groupwise.algorithms.dapo import DAPO
from groupwise.algorithms.dpo import DPO
from groupwise.algorithms.dr_grpo import DrGRPO
from groupwise.algorithms.gmpo import GMPO
from groupwise.algorithms.grpo import GRPO
from groupwise.algorithms.gspo import GSPO
from groupwise.algorithms.gspo_token import GSPOToken
from groupwise.algorithms.online_rft import OnlineRFT
from groupwise.algorithms.ppo import PPO
from groupwise.algorithms.process_reward_model import ProcessRewardModel
from groupwise.algorithms.reinforce_pp import ReinforcePP
from groupwise.algorithms.reinforce_pp_baseline import ReinforcePPBaseline
from groupwise.algorithms.reward_model import BradleyTerry
from groupwise.algorithms.rft import RFT
from groupwise.algorithms.rloo import RLOO
from groupwise.algorithms.sapo import SAPO
from groupwise.algorithms.sft import SFT
from groupwise.algorithms.value_pretraining import ValuePretraining
from groupwise.algorithms.vapo import VAPO
from groupwise.algorithms.vc_ppo import VCPPO

ALGORITHMS: dict[str, type[AlgorithmSettings]] = {
    "sft": SFT,
    "rft": RFT,
    "online_rft": OnlineRFT,
    "dpo": DPO,
    "ppo": PPO,
    "grpo": GRPO,
    "dr_grpo": DrGRPO,
    "dapo": DAPO,
    "gspo": GSPO,
    "gspo_token": GSPOToken,
    "value_pretraining": ValuePretraining,
    "vc_ppo": VCPPO,
    "vapo": VAPO,
    "rloo": RLOO,
    "reinforce_pp": ReinforcePP,
    "reinforce_pp_baseline": ReinforcePPBaseline,
    "cispo": CISPO,
    "gmpo": GMPO,
    "sapo": SAPO,
    "reward_model": BradleyTerry,
    "process_reward_model": ProcessRewardModel,
}

if TYPE_CHECKING:
    from groupwise.algorithms.contract import Algorithm as AnyAlgorithm
else:
    AnyAlgorithm = Annotated[Union[tuple(ALGORITHMS.values())], Field(discriminator="name")]  # noqa: UP007
    """The type of a run file's `algorithm` table."""

__all__ = [
    "ALGORITHMS",
    "AlgorithmSettings",
    "AnyAlgorithm",
    "CISPO",
    "DAPO",
    "DPO",
    "DrGRPO",
    "GMPO",
    "GRPO",
    "GSPO",
    "GSPOToken",
    "OnlineRFT",
    "PPO",
    "ProcessRewardModel",
    "RFT",
    "RLOO",
    "ReinforcePP",
    "ReinforcePPBaseline",
    "BradleyTerry",
    "SAPO",
    "SFT",
    "VAPO",
    "VCPPO",
    "ValuePretraining",
]
