#!/bin/sh
# The same bits on one, two, three and four processes, in any placement, with
# either optimiser, for both models; and other bits as soon as one of the rules
# is broken, which the comparison names.
. tests/lib/trainers.sh
small="--threads 4 --epochs 2 --samples 128 --judge 0"

train one 1 "" "$cnn" $small
train two 2 "" "$cnn" $small
train three 3 0,1,2,0 "$cnn" $small
train four 4 3,1,0,2 "$cnn" $small
train chained 2 "" "$cnn" $small --chain 1
same one two
same one three
same one four
same one chained

train norng 2 "" "$cnn" $small --without rng
train nobuffers 2 "" "$cnn" $small --without buffers
train nosampler 2 "" "$cnn" $small --without sampler
# Threads that are no aligned block of the tree: 0 and 3, 1 and 2.
train nosum 2 0,1,1,0 "$cnn" $small --without sum
differ one norng "first difference: 'weights'"
differ one nobuffers "part 'buffers' of thread 0"
differ one nosampler "first difference: 'weights'"
differ one nosum "first difference: 'weights'"

eight="--threads 8 --epochs 1 --samples 192 --judge 0 --optimizer adam
    --text examples/README.md"
train g1 1 "" "$gpt" $eight
train g3 3 2,0,1,1,0,2,0,1 "$gpt" $eight
train g5 5 0,1,1,2,3,3,4,4 "$gpt" $eight
same g1 g3
same g1 g5
