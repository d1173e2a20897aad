#!/usr/bin/env bash
# Repeats the runs of docs/results.md. Start it in the folder with the data sets, such as moleculenet/esol.csv and
# co2_ionic_liquids/co2_ionic_liquids.csv. Then `python docs/results/runs.py add runs/*` records the runs.
#   docs/results/reproduce.sh timed      ESOL and CO2 by random rows, one after the other on a quiet machine
#   docs/results/reproduce.sh words      tiny Shakespeare, tiny_shakespeare/input.txt
#   docs/results/reproduce.sh reviews    SST-2, sst2/train.csv, dev.csv, test.csv; and rt_polarity/rt_polarity.csv
#   docs/results/reproduce.sh multi30k   multi30k_en_de/train.en ...
#   docs/results/reproduce.sh citations  planetoid/cora.npz, citeseer.npz
#   docs/results/reproduce.sh pages      facebook_pages/facebook_pages.npz
#   docs/results/reproduce.sh charges    nothing: it simulates its data
#   docs/results/reproduce.sh solar      nothing either
#   docs/results/reproduce.sh roads      metr_la_week/metr_la_week.npz
#   docs/results/reproduce.sh mat        moleculenet/esol.csv, freesolv.csv
#   docs/results/reproduce.sh FOLD ...   CO2 with whole ionic liquids held out, folds 0 to 4, one model and five
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ionic="--smiles-columns cation_smiles anion_smiles --descriptors-columns temperature_K pressure_bar"
ionic="$ionic --target-columns x_co2_mole_fraction --bounds 0 1"
mkdir -p runs logs

# train NAME DATA FLAGS: the run goes to runs/NAME, what it prints and how long it took to logs/NAME.log
train() {
    local name=$1 began
    shift
    began=$(date +%s)
    edgewise train "$@" -o "runs/$name" --overwrite > "logs/$name.log" 2>&1
    echo "whole command: $(($(date +%s) - began)) s" >> "logs/$name.log"
}

small="--num-layers 4 --num-heads 4 --model-dim 128 --context 64 --steps 2000"
texts="--text-columns text --target-columns label"
sst2="sst2/train.csv sst2/dev.csv sst2/test.csv"
[ "$1" != timed ] && [[ ! "$1" =~ ^[0-9]$ ]] || [ -f co2_folds.csv ] ||
    python "$here/ionic_liquid_folds.py" co2_ionic_liquids/co2_ionic_liquids.csv co2_folds.csv
for what in "$@"; do
    if [ "$what" = timed ]; then
        for split in 0 1 2; do
            train "esol_$split" moleculenet/esol.csv --smiles-columns smiles \
                --target-columns log_solubility_log10_mol_per_L --splits-column "mat_split_$split"
        done
        for seed in 0 1 2; do
            # shellcheck disable=SC2086
            train "co2_random_$seed" co2_ionic_liquids/co2_ionic_liquids.csv $ionic \
                --split random --split-sizes 0.72 0.08 0.2 --data-seed "$seed"
        done
    elif [ "$what" = words ]; then
        # shellcheck disable=SC2086
        train shakespeare tiny_shakespeare/input.txt $small
        # shellcheck disable=SC2086
        train shakespeare_gpt2 tiny_shakespeare/input.txt --model gpt2 $small --dropout 0 --learning-rate 1e-3 \
            --final-learning-rate 1e-4 --second-moment-decay 0.99
    elif [ "$what" = reviews ]; then
        python "$here/polarity_folds.py" rt_polarity/rt_polarity.csv polarity_folds.csv
        train sst2_masked sst2/train.csv --text-columns text --task-type masked --num-layers 1 --hidden-dim 256 \
            --vocabulary-size 32768 --epochs 30 --threads 1
        for seed in 0 1 2; do
            # shellcheck disable=SC2086
            train "sst2_counts_$seed" $sst2 $texts --seed "$seed" --threads 1
            # shellcheck disable=SC2086
            train "sst2_transformer_$seed" $sst2 $texts --companions none --seed "$seed" --threads 1
            # shellcheck disable=SC2086
            train "sst2_lstm_$seed" $sst2 $texts --companions none --model lstm --seed "$seed" --threads 1
            # shellcheck disable=SC2086
            train "sst2_from_masked_$seed" $sst2 $texts --companions none --pretrained runs/sst2_masked --dropout 0.3 \
                --seed "$seed" --threads 1
        done
        for fold in 0 1 2 3 4 5 6 7 8 9; do
            # shellcheck disable=SC2086
            train "polarity_counts_$fold" polarity_folds.csv $texts --splits-column "fold_$fold" --threads 1
            # shellcheck disable=SC2086
            train "polarity_transformer_$fold" polarity_folds.csv $texts --companions none \
                --splits-column "fold_$fold" --threads 1
            # shellcheck disable=SC2086
            train "polarity_lstm_$fold" polarity_folds.csv $texts --companions none --model lstm \
                --splits-column "fold_$fold" --threads 1
        done
    elif [ "$what" = citations ]; then
        # shellcheck disable=SC2086
        for seed in 0 1 2 3 4 5 6 7 8 9; do
            for graph in cora citeseer; do
                for model in gcn gat; do
                    train "${graph}_${model}_$seed" "planetoid/$graph.npz" --model $model --seed "$seed"
                done
            done
            train "cora_hops_$seed" planetoid/cora.npz --dropout 0.8 --weight-decay 0.01 --seed "$seed"
            train "citeseer_hops_$seed" planetoid/citeseer.npz --weight-decay 0.02 --seed "$seed"
        done
    elif [ "$what" = pages ]; then
        parts="facebook_pages/facebook_pages.npz --split random --split-sizes 0.6 0.2 0.2 --weight-decay 1e-5 --epochs 200"
        # shellcheck disable=SC2086
        train pages_gcn $parts --no-baselines --model gcn --model-dim 64
        # shellcheck disable=SC2086
        train pages_gatv2 $parts --no-baselines --model gatv2 --dropout 0.3 --attention-dropout 0.3
        # shellcheck disable=SC2086
        train pages_hops $parts --no-baselines
    elif [ "$what" = charges ]; then
        edgewise simulate charges --num-trajectories 7000 -o charges.npz --overwrite
        parts="charges.npz --start 31 --horizon 10 --split-sizes 0.42857143 0.28571429 0.28571428 --threads 1"
        parts="$parts --batch-size 50 --ema-decay 0.999 --optimizer adamw --weight-decay 0.1"
        for seed in 0 1 2; do
            # shellcheck disable=SC2086
            train charges_every_$seed $parts --epochs 8 --every-start --seed $seed
            # shellcheck disable=SC2086
            train charges_equivariant_$seed $parts --epochs 300 --seed $seed
        done
        # shellcheck disable=SC2086
        train charges_network $parts --epochs 300 --model graph_network
        python "$here/rotations.py" charges.npz runs/charges_equivariant_0 runs/charges_network > logs/rotations.md
    elif [ "$what" = solar ]; then
        edgewise simulate solar -o solar.npz --overwrite
        train solar solar.npz --target-quantity accelerations --threads 1
        edgewise report runs/solar
    elif [ "$what" = roads ]; then
        python "$here/metr_tables.py" metr_la_week/metr_la_week.npz speed.csv roads.csv
        parts="speed.csv --edges roads.csv --task-type forecast --time-column minute --period 288 --threads 1"
        # shellcheck disable=SC2086
        train metr_gaan $parts
        # shellcheck disable=SC2086
        train metr_gru $parts --model gru
    elif [ "$what" = mat ]; then
        for split in 0 1 2 3 4 5; do
            for model in mat attention; do
                train "${model}_esol_$split" moleculenet/esol.csv --smiles-columns smiles \
                    --target-columns log_solubility_log10_mol_per_L --splits-column "mat_split_$split" \
                    --model $model --threads 1
                train "${model}_freesolv_$split" moleculenet/freesolv.csv --smiles-columns smiles \
                    --target-columns hydration_free_energy_kcal_per_mol \
                    --ignore-columns calculated_hydration_free_energy_kcal_per_mol \
                    --splits-column "mat_split_$split" --model $model --threads 1
            done
        done
    elif [ "$what" = multi30k ]; then
        files=()
        for part in train val test_2016_flickr; do
            files+=("multi30k_en_de/$part.en" "multi30k_en_de/$part.de")
        done
        train multi30k "${files[@]}" --task-type translation --num-layers 4 --model-dim 128 --hidden-dim 256 \
            --epochs 32 --threads 2
        train multi30k_lstm "${files[@]}" --task-type translation --model lstm --model-dim 180 --epochs 32 --threads 1
    else
        # shellcheck disable=SC2086
        train "co2_fold_$what" co2_folds.csv $ionic --splits-column "fold_$what"
        # shellcheck disable=SC2086
        train "co2_fold_${what}_ensemble" co2_folds.csv $ionic --splits-column "fold_$what" --ensemble-size 5
    fi
done
